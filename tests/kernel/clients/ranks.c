// SPDX-License-Identifier: Apache-2.0
/*
 * Two ranks, a thread each, that call every collective and make communicators in every way.
 * What really happened is in the stand-in's own log.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
	char bytes[128];
} unique_id;

struct config {
	size_t size;
	unsigned magic, version;
	int blocking, cga, min_ctas, max_ctas;
	const char *net_name;
	int split_share, traffic_class;
	const char *comm_name;
	int more[16];
};

extern int cudaMalloc(void **, size_t), cudaSetDevice(int);
extern int cudaMemsetAsync(void *, int, size_t, void *);
extern int ncclGetUniqueId(unique_id *);
extern int ncclCommInitRankConfig(void **, int, unique_id, int, struct config *);
extern int ncclCommInitRankScalable(void **, int, int, int, unique_id *, struct config *);
extern int ncclCommInitAll(void **, int, const int *);
extern int ncclCommSplit(void *, int, int, void **, struct config *);
extern int ncclCommShrink(void *, int *, int, void **, struct config *, int);
extern int ncclCommCount(void *, int *), ncclCommUserRank(void *, int *);
extern int ncclCommFinalize(void *), ncclCommDestroy(void *), ncclCommAbort(void *);
extern int ncclGroupStart(void), ncclGroupEnd(void), ncclGroupSimulateEnd(void *);
extern int ncclCommGetAsyncError(void *, int *);
extern int ncclAllReduce(const void *, void *, size_t, int, int, void *, void *);
extern int ncclReduce(const void *, void *, size_t, int, int, int, void *, void *);
extern int ncclBroadcast(const void *, void *, size_t, int, int, void *, void *);
extern int ncclBcast(void *, size_t, int, int, void *, void *);
extern int ncclAllGather(const void *, void *, size_t, int, void *, void *);
extern int ncclReduceScatter(const void *, void *, size_t, int, int, void *, void *);
extern int ncclAlltoAll(const void *, void *, size_t, int, void *, void *);
extern int ncclGather(const void *, void *, size_t, int, int, void *, void *);
extern int ncclScatter(const void *, void *, size_t, int, int, void *, void *);
extern int ncclSend(const void *, size_t, int, int, void *, void *);
extern int ncclRecv(void *, size_t, int, int, void *, void *);

static unique_id first, second, third;
static int times;

static struct config named(const char *name)
{
	struct config config = {sizeof(config), 0xcafebeef, 22700};

	for (size_t i = 16; i < sizeof(config); i += 4)
		*(int *)((char *)&config + i) = INT32_MIN;
	config.net_name = NULL;
	config.comm_name = name;
	return config;
}

static void collectives(void *comm, int rank)
{
	void *b;

	cudaMalloc(&b, 1 << 20);
	/* A group that launches nothing; what follows is not part of it. */
	ncclGroupStart();
	ncclAllReduce(b, b, 151, 7, 0, comm, NULL);
	ncclGroupSimulateEnd(NULL);
	for (int i = 0; i < times; i++) {
		ncclAllReduce(b, b, 101, 7, 2, comm, NULL);
		ncclReduce(b, b, 103, 9, 0, 1, comm, NULL);
		ncclBroadcast(b, b, 107, 0, 1, comm, NULL);
		ncclBcast(b, 109, 8, 0, comm, NULL);
		ncclAllGather(b, b, 113, 6, comm, NULL);
		ncclReduceScatter(b, b, 127, 4, 3, comm, NULL);
		ncclAlltoAll(b, b, 131, 1, comm, NULL);
		ncclGather(b, b, 137, 3, 0, comm, NULL);
		ncclScatter(b, b, 139, 5, 1, comm, NULL);
		ncclGroupStart();
		ncclGroupStart();
		ncclSend(b, 149, 2, 1 - rank, comm, NULL);
		ncclGroupEnd();
		/* The application's own, in the middle of a group. */
		cudaMemsetAsync(b, 0, 157, NULL);
		ncclRecv(b, 149, 2, 1 - rank, comm, NULL);
		ncclGroupEnd();
	}
}

/* Made without blocking: the call returns before the other rank is there. */
static void *unhurried(int rank, struct config *config)
{
	int state = 7;
	void *comm;

	config->blocking = 0;
	if (ncclCommInitRankConfig(&comm, 2, third, rank, config) != 7)
		exit(6);
	while (state == 7)
		if (ncclCommGetAsyncError(comm, &state))
			exit(7);
	return comm;
}

static void *run(void *argument)
{
	/* Copied, as NCCL itself reads it: memory that nobody touched cannot be read by a probe. */
	struct config config = named(strdup("gradients"));
	int rank = (intptr_t)argument, answer;
	void *comm, *scalable, *split, *alone, *later;

	cudaSetDevice(0);
	if (ncclCommInitRankConfig(&comm, 2, first, rank, &config))
		exit(2);
	collectives(comm, rank);
	if (ncclCommInitRankScalable(&scalable, 2, rank, 1, &second, NULL))
		exit(3);
	ncclAllReduce(&comm, &comm, 1, 7, 0, scalable, NULL);
	later = unhurried(rank, &config);
	ncclReduce(&comm, &comm, 1, 7, 0, 0, later, NULL);
	if (ncclCommSplit(comm, 5, rank, &split, NULL))
		exit(4);
	ncclCommUserRank(split, &answer);
	ncclCommCount(split, &answer);
	ncclAllGather(&comm, &comm, 2, 7, split, NULL);
	if (ncclCommSplit(comm, rank, 0, &alone, NULL))
		exit(5);
	ncclCommFinalize(split);
	ncclCommDestroy(split);
	ncclCommAbort(alone);
	ncclCommDestroy(scalable);
	ncclCommDestroy(later);
	ncclCommDestroy(comm);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];

	times = argc > 1 ? atoi(argv[1]) : 1;
	ncclGetUniqueId(&first);
	ncclGetUniqueId(&second);
	ncclGetUniqueId(&third);
	for (intptr_t rank = 0; rank < 2; rank++)
		pthread_create(&threads[rank], NULL, run, (void *)rank);
	for (int rank = 0; rank < 2; rank++)
		pthread_join(threads[rank], NULL);
	return 0;
}
