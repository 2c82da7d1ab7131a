// SPDX-License-Identifier: Apache-2.0
/* One rank of several: the first makes the unique id and leaves it in a file for the others. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "workload.h"

typedef struct {
	char bytes[128];
} unique_id;

enum { FLOAT32 = 7, SUM = 0 };

static struct {
	int (*ncclGetUniqueId)(unique_id *);
	int (*ncclCommInitRank)(void **, int, unique_id, int);
	int (*ncclAllReduce)(const void *, void *, size_t, int, int, void *, void *);
	int (*ncclCommDestroy)(void *);
} nccl;

void rank_open(void)
{
	void *library;

	if (!options.ranks)
		return;
	library = dlopen("libnccl.so.2", RTLD_NOW);
	if (!library || !options.id_file || options.threads != 1) {
		fprintf(stderr, "workload: --ranks needs libnccl.so.2, --id-file and one thread\n");
		exit(2);
	}
	*(void **)&nccl.ncclGetUniqueId = dlsym(library, "ncclGetUniqueId");
	*(void **)&nccl.ncclCommInitRank = dlsym(library, "ncclCommInitRank");
	*(void **)&nccl.ncclAllReduce = dlsym(library, "ncclAllReduce");
	*(void **)&nccl.ncclCommDestroy = dlsym(library, "ncclCommDestroy");
}

static void id_write(const unique_id *id)
{
	char part[4096];
	int fd;

	snprintf(part, sizeof(part), "%s.part", options.id_file);
	fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0 || write(fd, id, sizeof(*id)) != sizeof(*id))
		check(-1, "writing the unique id");
	close(fd);
	check(rename(part, options.id_file), "writing the unique id");
}

static void id_read(unique_id *id)
{
	struct timespec rest = { 0, 2000000 };
	int fd;

	while ((fd = open(options.id_file, O_RDONLY | O_CLOEXEC)) < 0)
		nanosleep(&rest, NULL);
	check(read(fd, id, sizeof(*id)) != sizeof(*id), "reading the unique id");
	close(fd);
}

void rank_start(struct worker *w)
{
	unique_id id;

	if (!options.ranks)
		return;
	if (options.rank == 0) {
		check(nccl.ncclGetUniqueId(&id), "ncclGetUniqueId");
		id_write(&id);
	} else {
		id_read(&id);
	}
	check(nccl.ncclCommInitRank(&w->comm, options.ranks, id, options.rank), "ncclCommInitRank");
}

void rank_finish(struct worker *w)
{
	if (w->comm)
		check(nccl.ncclCommDestroy(w->comm), "ncclCommDestroy");
}

void gpu_allreduce(struct worker *w, size_t floats, void *stream)
{
	check(nccl.ncclAllReduce(w->device_memory, w->device_memory, floats, FLOAT32, SUM, w->comm,
				 stream),
	      "ncclAllReduce");
	w->calls[CALL_ALLREDUCE]++;
}
