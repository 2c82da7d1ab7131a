// SPDX-License-Identifier: Apache-2.0
/* Making communicators: ranks find each other by the unique id and wait until all are there. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nccl.h"

#define COMM_MAGIC 0x6d6d6f636c63636eULL
#define LOOK_NS 5000000

bool comm_valid(const struct comm *comm)
{
	return comm && ((uintptr_t)comm & 15) == 0 && (uintptr_t)comm > 65536 &&
	       comm->magic == COMM_MAGIC;
}

static uint64_t hash_of(const void *data, size_t bytes, uint64_t seed)
{
	uint64_t hash = 14695981039346656037ULL ^ seed;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ ((const unsigned char *)data)[i]) * 1099511628211ULL;
	return hash;
}

static void meeting_path(char *path, size_t size, uint64_t hash)
{
	const char *name = getenv("COTENANT_SIM_DEVICE");

	if (!name || !*name)
		name = "cotenant-sim-gpu";
	snprintf(path, size, "%s%s-nccl-%016llx", strchr(name, '/') ? "" : "/dev/shm/", name,
		 (unsigned long long)hash);
}

/* All ranks come with the same hash and size; whoever is first makes the file. */
static struct meeting *meeting_open(uint64_t hash, int nranks)
{
	size_t size = sizeof(struct meeting) +
		      (size_t)nranks * (size_t)nranks * PAIR_SLOTS * sizeof(struct gate_slot);
	struct meeting *meeting = MAP_FAILED;
	struct stat st;
	char path[4096];
	int fd;

	meeting_path(path, sizeof(path), hash);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_CREAT, 0666);
	if (fd < 0)
		return NULL;
	(void)!fchmod(fd, 0666);
	if (flock(fd, LOCK_EX) == 0 && fstat(fd, &st) == 0 &&
	    (st.st_size == (off_t)size || (st.st_size == 0 && ftruncate(fd, (off_t)size) == 0)))
		meeting = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (meeting != MAP_FAILED) {
		meeting->hash = hash;
		if (atomic_fetch_add(&meeting->joined, 1) + 1 == (uint32_t)nranks)
			unlink(path);
	}
	flock(fd, LOCK_UN); /* the mapping would keep it */
	close(fd);
	return meeting == MAP_FAILED ? NULL : meeting;
}

static void wait_for(_Atomic uint32_t *value, uint32_t target, const _Atomic uint32_t *aborted)
{
	struct timespec most = { 0, LOOK_NS };
	uint32_t seen;

	syscall(SYS_futex, value, FUTEX_WAKE, 1 << 30, NULL, NULL, 0);
	while ((int32_t)((seen = atomic_load(value)) - target) < 0 && !atomic_load(aborted))
		syscall(SYS_futex, value, FUTEX_WAIT, seen, &most, NULL, 0);
}

ncclResult_t comm_begin(struct comm **out, int nranks, uint64_t hash, int rank, int device)
{
	struct comm *comm;

	if (!out || nranks < 1 || nranks > RANKS || rank < 0 || rank >= nranks)
		return ncclInvalidArgument;
	comm = calloc(1, sizeof(*comm));
	comm->magic = COMM_MAGIC;
	comm->hash = hash;
	comm->rank = rank;
	comm->nranks = nranks;
	comm->device = device;
	comm->meeting = meeting_open(hash, nranks);
	if (!comm->meeting || cu.cuDevicePrimaryCtxRetain(&comm->context, device) != CUDA_SUCCESS) {
		free(comm);
		return ncclSystemError;
	}
	*out = comm;
	return ncclSuccess;
}

ncclResult_t comm_wait(struct comm *comm)
{
	wait_for(&comm->meeting->joined, (uint32_t)comm->nranks, &comm->aborted);
	return ncclSuccess;
}

static ncclResult_t log_comm(const char *api, const char *op, int64_t began,
			     const struct comm *comm, ncclResult_t result)
{
	struct nccl_record call = nccl_record_blank(api, op, began, result);

	if (!private_table)
		return result;
	if (comm && (result == ncclSuccess || result == ncclInProgress)) {
		call.rank = comm->rank;
		call.nranks = comm->nranks;
		call.comm = (uint64_t)comm;
		call.comm_hash = comm->hash;
	}
	call.t_end = private_table->now();
	private_table->log_nccl(&call);
	return result;
}

static int current_device(void)
{
	CUdevice device = 0;

	return cu.cuCtxGetDevice(&device) == CUDA_SUCCESS ? device : 0;
}

/* ncclConfig_t: its size, a magic number, the version, then `blocking`. */
static bool blocks(const void *config)
{
	return !config || *(const size_t *)config < 20 || ((const int *)config)[4] != 0;
}

static ncclResult_t init_rank(const char *api, struct comm **out, int nranks, uint64_t hash,
			      int rank, const void *config)
{
	ncclResult_t result = driver_load();
	int64_t began;

	if (result)
		return result;
	began = private_table->now();
	result = comm_begin(out, nranks, hash, rank, current_device());
	if (result == ncclSuccess && !blocks(config))
		return log_comm(api, "CommInitRank", began, *out, ncclInProgress);
	if (result == ncclSuccess && !group_defers(*out))
		comm_wait(*out);
	return log_comm(api, "CommInitRank", began, result ? NULL : *out, result);
}

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	if (!id)
		return ncclInvalidArgument;
	return getrandom(id->bytes, sizeof(id->bytes), 0) == sizeof(id->bytes) ? ncclSuccess
									       : ncclSystemError;
}

EXPORT ncclResult_t ncclCommInitRank(ncclComm_t *out, int nranks, ncclUniqueId id, int rank)
{
	return init_rank(__func__, out, nranks, hash_of(&id, sizeof(id), 0), rank, NULL);
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int nranks, ncclUniqueId id, int rank,
					   void *config)
{
	return init_rank(__func__, out, nranks, hash_of(&id, sizeof(id), 0), rank, config);
}

EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t *out, int nranks, int rank, int n,
					     ncclUniqueId *ids, void *config)
{
	if (n < 1 || !ids)
		return ncclInvalidArgument;
	return init_rank(__func__, out, nranks, hash_of(ids, sizeof(*ids), 0), rank, config);
}

EXPORT ncclResult_t ncclCommInitAll(ncclComm_t *comms, int n, const int *devices)
{
	ncclResult_t result = driver_load();
	ncclUniqueId id;
	int64_t began;

	if (result || !comms)
		return result ? result : ncclInvalidArgument;
	began = private_table->now();
	result = ncclGetUniqueId(&id);
	for (int i = 0; i < n && result == ncclSuccess; i++)
		result = comm_begin(&comms[i], n, hash_of(&id, sizeof(id), 0), i,
				    devices ? devices[i] : i);
	return log_comm(__func__, "CommInitAll", began, result ? NULL : comms[0], result);
}

/* Everybody says color and key; who has my color, in the order of the keys, is with me. */
static void split_ranks(const struct split *split, const struct comm *comm, int *rank, int *nranks)
{
	int color = split->color[comm->rank], key = split->key[comm->rank];

	*rank = *nranks = 0;
	for (int i = 0; i < comm->nranks; i++) {
		if (split->color[i] != color)
			continue;
		++*nranks;
		*rank += split->key[i] < key || (split->key[i] == key && i < comm->rank);
	}
}

EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *out,
				  void *config)
{
	struct split *split;
	uint64_t seeds[3];
	ncclResult_t result;
	uint32_t number;
	int64_t began;
	int rank, nranks;

	(void)config;
	if (!comm_valid(comm) || !out)
		return ncclInvalidArgument;
	began = private_table->now();
	number = comm->splits++;
	split = &comm->meeting->splits[number % SPLIT_SLOTS];
	split->color[comm->rank] = color;
	split->key[comm->rank] = key;
	atomic_fetch_add(&split->posted, 1);
	wait_for(&split->posted, (number / SPLIT_SLOTS + 1) * (uint32_t)comm->nranks,
		 &comm->aborted);
	*out = NULL;
	if (color < 0)
		return log_comm(__func__, "CommSplit", began, NULL, ncclSuccess);
	split_ranks(split, comm, &rank, &nranks);
	seeds[0] = comm->hash;
	seeds[1] = number;
	seeds[2] = (uint64_t)color;
	result = comm_begin(out, nranks, hash_of(seeds, sizeof(seeds), 1), rank, comm->device);
	if (result == ncclSuccess)
		comm_wait(*out);
	return log_comm(__func__, "CommSplit", began, result ? NULL : *out, result);
}

EXPORT ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int n, ncclComm_t *out,
				   void *config, int flags)
{
	uint64_t seeds[2];
	ncclResult_t result;
	int64_t began;
	int before = 0;

	(void)config;
	(void)flags;
	if (!comm_valid(comm) || !out || n < 0 || n >= comm->nranks)
		return ncclInvalidArgument;
	began = private_table->now();
	for (int i = 0; i < n; i++)
		before += excluded[i] < comm->rank;
	seeds[0] = comm->hash;
	seeds[1] = comm->shrinks++;
	result = comm_begin(out, comm->nranks - n, hash_of(seeds, sizeof(seeds), 2),
			    comm->rank - before, comm->device);
	if (result == ncclSuccess)
		comm_wait(*out);
	return log_comm(__func__, "CommShrink", began, result ? NULL : *out, result);
}

/* The memory stays: the device may still be at a gate in it. */
static ncclResult_t end(const char *api, const char *op, struct comm *comm, bool abort)
{
	ncclResult_t result;

	if (!comm_valid(comm))
		return ncclInvalidArgument;
	result = log_comm(api, op, private_table->now(), comm, ncclSuccess);
	if (abort)
		atomic_store(&comm->aborted, 1);
	comm->magic = 0;
	return result;
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	return end(__func__, "CommDestroy", comm, false);
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	return end(__func__, "CommAbort", comm, true);
}

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	if (!comm_valid(comm))
		return ncclInvalidArgument;
	return log_comm(__func__, "CommFinalize", private_table->now(), comm, ncclSuccess);
}

EXPORT ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
	LEAF();
	if (!comm_valid(comm))
		return ncclInvalidArgument;
	*count = comm->nranks;
	return ncclSuccess;
}

EXPORT ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
	LEAF();
	if (!comm_valid(comm))
		return ncclInvalidArgument;
	*rank = comm->rank;
	return ncclSuccess;
}

EXPORT ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
	LEAF();
	if (!comm_valid(comm))
		return ncclInvalidArgument;
	*device = comm->device;
	return ncclSuccess;
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
	LEAF();
	if (!comm_valid(comm))
		return ncclInvalidArgument;
	*error = atomic_load(&comm->meeting->joined) < (uint32_t)comm->nranks ? ncclInProgress
									      : ncclSuccess;
	return ncclSuccess;
}

TWIN(ncclGetUniqueId);
TWIN(ncclCommInitRank);
TWIN(ncclCommInitRankConfig);
TWIN(ncclCommInitRankScalable);
TWIN(ncclCommInitAll);
TWIN(ncclCommSplit);
TWIN(ncclCommShrink);
TWIN(ncclCommDestroy);
TWIN(ncclCommAbort);
TWIN(ncclCommFinalize);
TWIN(ncclCommCount);
TWIN(ncclCommUserRank);
TWIN(ncclCommCuDevice);
TWIN(ncclCommGetAsyncError);
