// SPDX-License-Identifier: Apache-2.0
/* The collectives, point-to-point calls and groups that programs call. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nccl.h"

static __thread struct {
	int depth;
	struct task *first, **tail;
	struct joining *joining;
	int64_t group;
	const char *outer; /* the call that calls another of this library */
} mine;

static _Atomic int64_t groups;

bool group_defers(struct comm *comm)
{
	struct joining *j;

	if (!mine.depth)
		return false;
	j = calloc(1, sizeof(*j));
	j->comm = comm;
	j->next = mine.joining;
	mine.joining = j;
	return true;
}

/* COTENANT_SIM_NCCL_DELAY_RANK=r:ns[,r:ns]; the number after the rank, -1 if it is not meant. */
static int64_t env_for_rank(const char *name, int rank)
{
	const char *at = getenv(name);

	for (; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		char *end;

		if (strtol(at, &end, 10) == rank && end != at)
			return *end == ':' ? strtoll(end + 1, NULL, 10) : 0;
	}
	return -1;
}

static void be_late(const struct comm *comm)
{
	int64_t delay = env_for_rank("COTENANT_SIM_NCCL_DELAY_RANK", comm->rank);
	int64_t healthy = env_for_rank("COTENANT_SIM_NCCL_HANG", comm->rank);
	struct timespec rest = { delay / 1000000000LL, delay % 1000000000LL };

	if (delay > 0)
		nanosleep(&rest, NULL);
	if (healthy >= 0 && comm->operations >= (uint32_t)healthy)
		for (;;)
			pause();
}

static void log_task(const char *api, const struct task *t, int64_t began, ncclResult_t result)
{
	size_t size = datatype_bytes(t->datatype);
	struct nccl_record call = { .api = api,
				    .op = t->op,
				    .t_begin = began,
				    .bytes = (int64_t)(t->count * size),
				    .count = (int64_t)t->count,
				    .group = mine.depth ? mine.group : -1,
				    .datatype = t->datatype,
				    .reduce_op = t->reduce_op,
				    .root = t->root,
				    .peer = t->peer,
				    .rank = -1,
				    .nranks = -1,
				    .result = result,
				    .comm = (uint64_t)t->comm,
				    .stream = (uint64_t)t->stream };

	if (comm_valid(t->comm)) {
		call.rank = t->comm->rank;
		call.nranks = t->comm->nranks;
		call.comm_hash = t->comm->hash;
	}
	call.t_end = private_table->now();
	private_table->log_nccl(&call);
}

static ncclResult_t submit(const struct task *asked)
{
	struct task *t, task = *asked;

	if (!comm_valid(task.comm))
		return ncclInvalidArgument;
	if (!datatype_bytes(task.datatype) || task.root >= task.comm->nranks ||
	    task.peer >= task.comm->nranks)
		return ncclInvalidArgument;
	if (!mine.depth) {
		be_late(task.comm);
		return tasks_launch(&task);
	}
	t = malloc(sizeof(*t));
	*t = task;
	if (!mine.first)
		mine.tail = &mine.first;
	*mine.tail = t;
	mine.tail = &t->next;
	return ncclSuccess;
}

static ncclResult_t run(const char *api, struct task task)
{
	ncclResult_t result = driver_load();
	int64_t began;

	if (result)
		return result;
	began = private_table->now();
	result = submit(&task);
	if (!mine.outer || strcmp(mine.outer, api) == 0)
		log_task(api, &task, began, result);
	return result;
}

EXPORT ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, int type, int op,
				  ncclComm_t comm, CUstream stream)
{
	(void)send;
	(void)recv;
	return run(__func__, (struct task){ NULL, "AllReduce", comm, count, type, op, -1, -1,
					    stream, false });
}

EXPORT ncclResult_t ncclReduce(const void *send, void *recv, size_t count, int type, int op,
			       int root, ncclComm_t comm, CUstream stream)
{
	(void)send;
	(void)recv;
	return run(__func__,
		   (struct task){ NULL, "Reduce", comm, count, type, op, root, -1, stream, false });
}

EXPORT ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, int type, int root,
				  ncclComm_t comm, CUstream stream)
{
	(void)send;
	(void)recv;
	return run(__func__, (struct task){ NULL, "Broadcast", comm, count, type, -1, root, -1,
					    stream, false });
}

EXPORT ncclResult_t ncclBcast(void *buffer, size_t count, int type, int root, ncclComm_t comm,
			      CUstream stream)
{
	struct task task = { NULL, "Broadcast", comm, count, type, -1, root, -1, stream, false };
	ncclResult_t result = driver_load();
	int64_t began;

	if (result)
		return result;
	began = private_table->now();
	mine.outer = __func__;
	result = ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
	mine.outer = NULL;
	log_task(__func__, &task, began, result);
	return result;
}

EXPORT ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, int type,
				  ncclComm_t comm, CUstream stream)
{
	(void)send;
	(void)recv;
	return run(__func__, (struct task){ NULL, "AllGather", comm, count, type, -1, -1, -1,
					    stream, false });
}

EXPORT ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, int type, int op,
				      ncclComm_t comm, CUstream stream)
{
	(void)send;
	(void)recv;
	return run(__func__, (struct task){ NULL, "ReduceScatter", comm, count, type, op, -1, -1,
					    stream, false });
}

EXPORT ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, int type,
				 ncclComm_t comm, CUstream stream)
{
	(void)send;
	(void)recv;
	return run(__func__,
		   (struct task){ NULL, "AlltoAll", comm, count, type, -1, -1, -1, stream, false });
}

EXPORT ncclResult_t ncclGather(const void *send, void *recv, size_t count, int type, int root,
			       ncclComm_t comm, CUstream stream)
{
	(void)send;
	(void)recv;
	return run(__func__,
		   (struct task){ NULL, "Gather", comm, count, type, -1, root, -1, stream, false });
}

EXPORT ncclResult_t ncclScatter(const void *send, void *recv, size_t count, int type, int root,
				ncclComm_t comm, CUstream stream)
{
	(void)send;
	(void)recv;
	return run(__func__, (struct task){ NULL, "Scatter", comm, count, type, -1, root, -1,
					    stream, false });
}

EXPORT ncclResult_t ncclSend(const void *buffer, size_t count, int type, int peer, ncclComm_t comm,
			     CUstream stream)
{
	(void)buffer;
	return run(__func__,
		   (struct task){ NULL, "Send", comm, count, type, -1, -1, peer, stream, false });
}

EXPORT ncclResult_t ncclRecv(void *buffer, size_t count, int type, int peer, ncclComm_t comm,
			     CUstream stream)
{
	(void)buffer;
	return run(__func__,
		   (struct task){ NULL, "Recv", comm, count, type, -1, -1, peer, stream, false });
}

/* One-sided: nobody waits for it, so it has no gate and no kernel here. */
EXPORT ncclResult_t ncclPutSignal(const void *buffer, size_t count, int type, int peer,
				  void *window, size_t offset, int signal, int context,
				  unsigned flags, ncclComm_t comm, CUstream stream)
{
	struct task task = { NULL, "PutSignal", comm, count, type, -1, -1, peer, stream, true };
	ncclResult_t result = driver_load();

	(void)buffer;
	(void)window;
	(void)offset;
	(void)signal;
	(void)context;
	(void)flags;
	if (result)
		return result;
	result = comm_valid(comm) ? ncclSuccess : ncclInvalidArgument;
	log_task(__func__, &task, private_table->now(), result);
	return result;
}

EXPORT ncclResult_t ncclGroupStart(void)
{
	LEAF();
	if (mine.depth++ == 0)
		mine.group = ++groups;
	return ncclSuccess;
}

static void log_group(const char *api, const char *op, int64_t began, ncclResult_t result)
{
	struct nccl_record call = nccl_record_blank(api, op, began, result);

	call.group = mine.group;
	call.t_end = private_table->now();
	private_table->log_nccl(&call);
}

static ncclResult_t finish_joining(void)
{
	struct joining *j;

	while ((j = mine.joining)) {
		comm_wait(j->comm);
		mine.joining = j->next;
		free(j);
	}
	return ncclSuccess;
}

static ncclResult_t group_end(const char *api, const char *op, bool launches)
{
	ncclResult_t result = driver_load();
	struct task *t, *next;
	int64_t began;

	if (result)
		return result;
	began = private_table->now();
	if (mine.depth == 0)
		return ncclInvalidUsage;
	if (mine.depth > 1) {
		mine.depth--;
		return ncclSuccess;
	}
	finish_joining();
	if (mine.first && launches)
		be_late(mine.first->comm);
	result = launches ? tasks_launch(mine.first) : ncclSuccess;
	for (t = mine.first; t; t = next) {
		next = t->next;
		free(t);
	}
	mine.first = NULL;
	mine.depth = 0;
	log_group(api, op, began, result);
	return result;
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
	return group_end(__func__, "GroupEnd", true);
}

EXPORT ncclResult_t ncclGroupSimulateEnd(void *info)
{
	(void)info;
	return group_end(__func__, "GroupSimulateEnd", false);
}

EXPORT ncclResult_t ncclGetVersion(int *version)
{
	LEAF();
	*version = 22907;
	return ncclSuccess;
}

EXPORT const char *ncclGetErrorString(ncclResult_t result)
{
	static const char *const texts[] = {
		"no error",	  "unhandled cuda error", "unhandled system error",
		"internal error", "invalid argument",	  "invalid usage"
	};

	LEAF();
	return result >= 0 && result < 6 ? texts[result] : "unknown result code";
}

EXPORT const char *ncclGetLastError(ncclComm_t comm)
{
	LEAF();
	(void)comm;
	return "";
}

EXPORT ncclResult_t ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence,
					     ncclComm_t comm)
{
	static _Atomic int next = 5;

	LEAF();
	(void)scalar;
	(void)type;
	(void)residence;
	(void)comm;
	*op = next++;
	return ncclSuccess;
}

EXPORT ncclResult_t ncclRedOpDestroy(int op, ncclComm_t comm)
{
	LEAF();
	(void)op;
	(void)comm;
	return ncclSuccess;
}

TWIN(ncclAllReduce);
TWIN(ncclReduce);
TWIN(ncclBroadcast);
TWIN(ncclBcast);
TWIN(ncclAllGather);
TWIN(ncclReduceScatter);
TWIN(ncclAlltoAll);
TWIN(ncclGather);
TWIN(ncclScatter);
TWIN(ncclSend);
TWIN(ncclRecv);
TWIN(ncclPutSignal);
TWIN(ncclGroupStart);
TWIN(ncclGroupEnd);
TWIN(ncclGroupSimulateEnd);
TWIN(ncclGetVersion);
TWIN(ncclGetErrorString);
TWIN(ncclGetLastError);
TWIN(ncclRedOpCreatePreMulSum);
TWIN(ncclRedOpDestroy);
