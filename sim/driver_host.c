// SPDX-License-Identifier: Apache-2.0
/* Host functions on a stream: run by a thread of ours when the stream has come to them. */
#include <signal.h>
#include <stdlib.h>

#include "queue.h"

struct job {
	struct job *next;
	struct gpu *gpu;
	struct moment before;
	struct gate gate;
	void (*function)(void *);
	void *data;
};

static struct job *first, **tail = &first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t added = PTHREAD_COND_INITIALIZER;

static void *work(void *unused)
{
	(void)unused;
	for (;;) {
		struct job *job;

		pthread_mutex_lock(&lock);
		while (!(job = first))
			pthread_cond_wait(&added, &lock);
		first = job->next;
		if (!first)
			tail = &first;
		pthread_mutex_unlock(&lock);
		queue_wait(job->gpu, job->before);
		queue_release(job->before);
		job->function(job->data);
		gate_post(&job->gate, now_ns());
		free(job);
	}
	return NULL;
}

static void work_start(void)
{
	sigset_t all, before;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (pthread_create(&thread, NULL, work, NULL) == 0)
		pthread_detach(thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The stream goes on when two have come to the gate: the device, and the thread above. */
CUresult host_func_submit(struct stream *stream, void (*function)(void *), void *data,
			  struct truth *rec)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct job *job = calloc(1, sizeof(*job));
	CUresult result;

	if (!job || !function)
		return CUDA_ERROR_INVALID_VALUE;
	job->gpu = stream->context->gpu;
	job->function = function;
	job->data = data;
	job->gate.slots = 1;
	job->gate.needed[0] = 2;
	/* Kept: the device may look at it after the function has returned. */
	job->gate.slot[0] = calloc(1, sizeof(struct gate_slot));
	job->before = queue_last(stream);
	self()->gate = &job->gate;
	result = queue_submit(stream, 0, rec);
	self()->gate = NULL;
	pthread_once(&once, work_start);
	pthread_mutex_lock(&lock);
	*tail = job;
	tail = &job->next;
	pthread_cond_signal(&added);
	pthread_mutex_unlock(&lock);
	return result;
}

static CUresult launch(struct truth *rec, CUstream handle, void (*function)(void *), void *data,
		       bool per_thread)
{
	struct stream *stream = stream_of(handle, per_thread);
	struct capture_op op = { .kind = NODE_HOST, .host = function, .host_data = data };

	if (rec) {
		rec->stream = (uint64_t)handle;
		rec->has |= HAS_STREAM;
	}
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (graph_captures(stream, &op, rec))
		return CUDA_SUCCESS;
	return host_func_submit(stream, function, data, rec);
}

EXPORT CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *data)
{
	CALL("host_func");
	DONE(launch(rec, stream, function, data, false));
}

EXPORT CUresult cuLaunchHostFunc_ptsz(CUstream stream, void (*function)(void *), void *data)
{
	CALL("host_func");
	DONE(launch(rec, stream, function, data, true));
}

struct callback {
	void (*function)(CUstream, CUresult, void *);
	CUstream stream;
	void *data;
};

static void call_back(void *arg)
{
	struct callback *c = arg;

	c->function(c->stream, CUDA_SUCCESS, c->data);
	free(c);
}

EXPORT CUresult cuStreamAddCallback(CUstream stream, void (*function)(CUstream, CUresult, void *),
				    void *data, unsigned flags)
{
	CALL("host_func");
	struct callback *c = malloc(sizeof(*c));

	(void)flags;
	*c = (struct callback){ function, stream, data };
	DONE(launch(rec, stream, call_back, c, false));
}

EXPORT CUresult cuStreamAddCallback_ptsz(CUstream stream,
					 void (*function)(CUstream, CUresult, void *), void *data,
					 unsigned flags)
{
	CALL("host_func");
	struct callback *c = malloc(sizeof(*c));

	(void)flags;
	*c = (struct callback){ function, stream, data };
	DONE(launch(rec, stream, call_back, c, true));
}
