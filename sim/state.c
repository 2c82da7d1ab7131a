// SPDX-License-Identifier: Apache-2.0
/* The process: its devices, its threads, what the environment says. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "driver.h"

int gpu_count;
bool initialised, copying;
__thread struct thread *self_;

static struct gpu gpus[GPUS];
static pthread_mutex_t state_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t thread_key;

uint64_t env_number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

double env_real(const char *name, double otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtod(text, NULL) : otherwise;
}

/* Names outlive the module they came from: the log still refers to them. */
const char *intern(const char *text)
{
	static const char *table[1 << 14];
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint32_t hash = 2166136261u, i;
	const char *found;

	for (const char *c = text; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 16777619u;
	pthread_mutex_lock(&lock);
	for (i = 0; i < 1 << 14; i++) {
		const char **slot = &table[(hash + i) % (1 << 14)];

		if (!*slot)
			*slot = strdup(text);
		if (strcmp(*slot, text) == 0)
			break;
	}
	found = i < 1 << 14 ? table[(hash + i) % (1 << 14)] : strdup(text);
	pthread_mutex_unlock(&lock);
	return found;
}

static void thread_gone(void *arg)
{
	struct thread *thread = arg;

	truth_thread_gone(thread->truth);
	self_ = NULL;
	free(thread);
}

struct thread *thread_make(void)
{
	self_ = calloc(1, sizeof(*self_));
	pthread_setspecific(thread_key, self_);
	return self_;
}

/* A context does not survive fork(): the child has a device of its own, and its own log. */
static void forked(void)
{
	self_ = NULL;
	truth_after_fork();
	for (int i = 0; i < GPUS; i++)
		if (atomic_load(&gpus[i].shared))
			shared_leave(&gpus[i]);
}

__attribute__((constructor)) static void state_make(void)
{
	pthread_key_create(&thread_key, thread_gone);
	pthread_atfork(NULL, NULL, forked);
	copying = env_number("COTENANT_SIM_COPY", 1) != 0;
	gpu_count = (int)env_number("COTENANT_SIM_DEVICES", 1);
	if (gpu_count > GPUS)
		gpu_count = GPUS;
	for (int i = 0; i < GPUS; i++)
		gpus[i].ordinal = i;
}

struct gpu *gpu_of(int ordinal)
{
	return ordinal >= 0 && ordinal < gpu_count ? &gpus[ordinal] : NULL;
}

struct stream *stream_new(struct context *context, uint32_t flags, int priority)
{
	struct stream *stream = arena_new(&streams);

	if (!stream)
		return NULL;
	stream->flags = flags;
	stream->priority = priority;
	stream->context = context;
	return stream;
}

CUresult context_new(struct context **out, int ordinal, uint32_t flags)
{
	struct gpu *gpu = gpu_of(ordinal);
	struct context *context;
	bool ready;

	if (!gpu)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&state_lock);
	ready = atomic_load(&gpu->shared) || shared_open(gpu);
	pthread_mutex_unlock(&state_lock);
	context = ready ? arena_new(&contexts) : NULL;
	if (!context)
		return CUDA_ERROR_OUT_OF_MEMORY;
	context->gpu = gpu;
	context->flags = flags;
	context->legacy = stream_new(context, 0, 0);
	*out = context;
	return CUDA_SUCCESS;
}

void context_drop(struct context *context)
{
	struct stream *stream = NULL;
	struct thread *thread = self();

	for (int i = thread->depth; i > 0; i--)
		if (thread->stack[i - 1] == context)
			thread->stack[i - 1] = NULL;
	while ((stream = arena_next(&streams, stream)))
		if (stream->context == context && !stream->first)
			arena_free(&streams, stream);
	arena_free(&contexts, context);
}

struct context *context_current(void)
{
	struct thread *thread = self();
	struct context *context = thread->depth ? thread->stack[thread->depth - 1] : NULL;

	return context && context->object.alive ? context : NULL;
}

struct stream *stream_of(CUstream handle, bool per_thread)
{
	struct context *context;
	struct stream **own;

	if (handle > STREAM_PER_THREAD)
		return arena_holds(&streams, handle) ? handle : NULL;
	context = context_current();
	if (!context)
		return NULL;
	if (handle == STREAM_LEGACY || (!handle && !per_thread))
		return context->legacy;
	own = &self()->own[context->gpu->ordinal];
	if (!*own || (*own)->context != context || !(*own)->object.alive)
		*own = stream_new(context, 0, 0);
	return *own;
}
