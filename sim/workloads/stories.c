// SPDX-License-Identifier: Apache-2.0
/* What a step is. Every choice comes from the worker's own random numbers. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "workload.h"

static void *stream_of(struct worker *w, uint64_t n)
{
	return w->streams[n % (uint64_t)options.streams];
}

/* Launches only, kernels in turn: the bare minimum for counting and timing. */
static void step_launch(struct worker *w, uint64_t step)
{
	gpu_launch(w, (int)(step % (uint64_t)options.kernels), 1, 32, stream_of(w, step));
}

/* A bit of everything, seven launches in ten. */
static void step_mix(struct worker *w, uint64_t step)
{
	uint64_t dice = random_next(w) % 100;
	size_t bytes = 1 + random_next(w) % BATCH_BYTES;
	void *stream = stream_of(w, random_next(w));

	if (dice < 70)
		gpu_launch(w, (int)(random_next(w) % (uint64_t)options.kernels),
			   1 + (uint32_t)(random_next(w) % 256), 32u << random_next(w) % 6, stream);
	else if (dice < 78)
		gpu_copy(w, HTOD, bytes, stream);
	else if (dice < 84)
		gpu_copy(w, DTOH, bytes, stream);
	else if (dice < 87)
		gpu_copy(w, DTOD, bytes / 2 + 1, stream);
	else if (dice < 90)
		gpu_copy_wait(w, step % 2 ? HTOD : DTOH, bytes);
	else if (dice < 93)
		gpu_fill(w, bytes, stream);
	else if (dice < 96)
		gpu_release(w, gpu_allocate(w, bytes));
	else if (dice < 99)
		gpu_stream_wait(w, stream);
	else
		gpu_device_wait(w);
}

#define CHECKPOINT_STEPS 10

static void checkpoint(struct worker *w)
{
	int fd;

	gpu_copy_wait(w, DTOH, BATCH_BYTES);
	if (!options.checkpoint)
		return;
	fd = open(options.checkpoint, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0 || write(fd, w->host_memory, BATCH_BYTES) != BATCH_BYTES || fsync(fd))
		check(-1, "checkpoint");
	close(fd);
}

/* A batch in, forward and backward, gradients summed over ranks, the update. */
static void step_train(struct worker *w, uint64_t step)
{
	void *stream = stream_of(w, 0);
	int layers = options.kernels > 1 ? options.kernels - 1 : 1;

	gpu_copy(w, HTOD, BATCH_BYTES, stream);
	for (int i = 0; i < layers; i++)
		gpu_launch(w, i, 256, 256, stream);
	if (options.ranks)
		gpu_allreduce(w, 1 << 20, stream);
	gpu_launch(w, options.kernels - 1, 128, 256, stream);
	gpu_stream_wait(w, stream);
	if ((step + 1) % CHECKPOINT_STEPS == 0)
		checkpoint(w);
}

/* A burst of requests, each of a few kernels, then the answer out. */
static void step_serve(struct worker *w, uint64_t step)
{
	uint64_t requests = 1 + random_next(w) % 8;

	for (uint64_t i = 0; i < requests; i++) {
		void *stream = stream_of(w, step + i);

		gpu_copy(w, HTOD, 4096, stream);
		for (int k = 0; k < options.kernels; k++)
			gpu_launch(w, k, 64, 128, stream);
		gpu_copy(w, DTOH, 1024, stream);
		gpu_stream_wait(w, stream);
	}
}

/* Large kernels, a wait now and then: the neighbour nobody wants. */
static void step_noisy(struct worker *w, uint64_t step)
{
	void *stream = stream_of(w, step);

	gpu_launch(w, (int)(step % (uint64_t)options.kernels), 1024, 256, stream);
	if ((step + 1) % 64 == 0)
		gpu_stream_wait(w, stream);
}

static const struct {
	const char *name;
	story_step step;
} stories[] = {
	{ "mix", step_mix },	 { "launch", step_launch }, { "train", step_train },
	{ "serve", step_serve }, { "noisy", step_noisy },
};

story_step story_find(const char *name)
{
	for (size_t i = 0; i < sizeof(stories) / sizeof(*stories); i++)
		if (strcmp(stories[i].name, name) == 0)
			return stories[i].step;
	return NULL;
}

const char *story_names(void)
{
	return "mix, launch, train, serve, noisy";
}
