// SPDX-License-Identifier: Apache-2.0
/* Tasks become kernels behind gates: one per collective, one for all sends and receives of a group.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nccl.h"

#define START_NS 8000
#define BYTES_PER_NS 100.0

static const struct {
	const char *name;
	int bytes;
} datatypes[] = {
	{ "i8", 1 },  { "u8", 1 },  { "i32", 4 }, { "u32", 4 },	 { "i64", 8 },	  { "u64", 8 },
	{ "f16", 2 }, { "f32", 4 }, { "f64", 8 }, { "bf16", 2 }, { "f8e4m3", 1 }, { "f8e5m2", 1 },
};

size_t datatype_bytes(int datatype)
{
	bool known = datatype >= 0 && datatype < (int)(sizeof(datatypes) / sizeof(*datatypes));

	return known ? (size_t)datatypes[datatype].bytes : 0;
}

/* A name as NCCL's own kernels have, mangled with their one parameter. */
static void kernel_name(char *out, size_t size, const struct task *task)
{
	static const char *const reductions[] = { "Sum", "Prod", "MinMax", "MinMax", "SumPostDiv" };
	const char *reduction = task->reduce_op < 0   ? NULL
				: task->reduce_op < 5 ? reductions[task->reduce_op]
						      : "PreMulSum";
	char plain[128];

	if (task->peer >= 0)
		snprintf(plain, sizeof(plain), "ncclDevKernel_SendRecv");
	else if (reduction)
		snprintf(plain, sizeof(plain), "ncclDevKernel_%s_%s_%s_RING_LL", task->op,
			 reduction, datatypes[task->datatype].name);
	else
		snprintf(plain, sizeof(plain), "ncclDevKernel_%s_RING_LL", task->op);
	snprintf(out, size, "_Z%zu%s24ncclDevKernelArgsStorageILm4096EE", strlen(plain), plain);
}

static CUfunction kernel_find(const struct task *task)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct known {
		struct known *next;
		char name[256];
		CUfunction function;
	} *known;
	static CUlibrary library;
	struct known *k;
	CUkernel kernel;
	char name[256];

	kernel_name(name, sizeof(name), task);
	pthread_mutex_lock(&lock);
	for (k = known; k && strcmp(k->name, name) != 0; k = k->next)
		;
	if (!library)
		cu.cuLibraryLoadData(&library, "nccl", NULL, NULL, 0, NULL, NULL, 0);
	if (!k && (k = calloc(1, sizeof(*k)))) {
		strcpy(k->name, name);
		if (cu.cuLibraryGetKernel(&kernel, library, name) == CUDA_SUCCESS)
			cu.cuKernelGetFunction(&k->function, kernel);
		k->next = known;
		known = k;
	}
	pthread_mutex_unlock(&lock);
	return k ? k->function : NULL;
}

static void gate_collective(struct gate *gate, struct comm *comm)
{
	uint32_t number = comm->operations++;

	gate->slot[gate->slots] = &comm->meeting->collectives[number % COLLECTIVE_SLOTS];
	gate->needed[gate->slots++] = (number / COLLECTIVE_SLOTS + 1) * (uint32_t)comm->nranks;
}

static void gate_pair(struct gate *gate, struct comm *comm, const struct task *task)
{
	bool sends = strcmp(task->op, "Recv") != 0;
	int from = sends ? comm->rank : task->peer, to = sends ? task->peer : comm->rank;
	uint32_t number = sends ? comm->sent[to]++ : comm->received[from]++;

	if (gate->slots == GATE_SLOTS)
		return;
	gate->slot[gate->slots] = &comm->meeting->pairs[(from * comm->nranks + to) * PAIR_SLOTS +
							(int)(number % PAIR_SLOTS)];
	gate->needed[gate->slots++] = (number / PAIR_SLOTS + 1) * 2;
}

static double task_work(const struct task *task)
{
	double bytes = (double)task->count * (double)datatype_bytes(task->datatype);
	double n = task->comm->nranks;
	double moved = bytes;

	if (strcmp(task->op, "AllReduce") == 0)
		moved = bytes * 2 * (n - 1) / n;
	else if (task->peer < 0 && task->root < 0)
		moved = bytes * (n - 1); /* a part for each of the others */
	return START_NS + moved / BYTES_PER_NS;
}

static ncclResult_t launch(const struct task *task, const struct gate *gate, size_t bytes)
{
	uint32_t channels = 1 + (uint32_t)(bytes >> 18);
	CUlaunchConfig config = {
		{ channels > 32 ? 32 : channels, 1, 1 }, { 512, 1, 1 }, 82240, task->stream, NULL, 0
	};
	CUfunction function = kernel_find(task);
	CUcontext before = NULL;
	CUresult result;

	cu.cuCtxGetCurrent(&before);
	if (before != task->comm->context)
		cu.cuCtxSetCurrent(task->comm->context);
	private_table->gate_next_launch(gate, task->op);
	result = cu.cuLaunchKernelEx(&config, function, NULL, NULL);
	private_table->gate_next_launch(NULL, NULL);
	if (before != task->comm->context)
		cu.cuCtxSetCurrent(before);
	return result == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
}

/* All sends and receives on one communicator and stream are one kernel. */
static ncclResult_t launch_pairs(struct task *first)
{
	struct gate gate = { .aborted = &first->comm->aborted };
	struct task fused = *first;
	size_t bytes = 0;

	for (struct task *t = first; t; t = t->next) {
		double work;

		if (t->done || t->peer < 0 || t->comm != first->comm || t->stream != first->stream)
			continue;
		t->done = true;
		gate_pair(&gate, t->comm, t);
		work = task_work(t);
		gate.work = work > gate.work ? work : gate.work;
		bytes += t->count * datatype_bytes(t->datatype);
		if (strcmp(t->op, first->op) != 0)
			fused.op = "SendRecv";
	}
	return launch(&fused, &gate, bytes);
}

ncclResult_t tasks_launch(struct task *tasks)
{
	ncclResult_t result = ncclSuccess;

	for (struct task *t = tasks; t && result == ncclSuccess; t = t->next) {
		struct gate gate = { .aborted = &t->comm->aborted };

		if (t->done)
			continue;
		if (t->peer >= 0) {
			result = launch_pairs(t);
			continue;
		}
		t->done = true;
		gate_collective(&gate, t->comm);
		gate.work = task_work(t);
		result = launch(t, &gate, t->count * datatype_bytes(t->datatype));
	}
	return result;
}
