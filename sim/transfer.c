// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "copy.h"

#define COPY_NS 1500
#define LINK_BYTES_PER_NS 25.0
#define MEMORY_BYTES_PER_NS 1000.0

const char *copy_direction(uint64_t dst, uint64_t src)
{
	if (device_pointer(dst))
		return device_pointer(src) ? "DtoD" : "HtoD";
	return device_pointer(src) ? "DtoH" : "HtoH";
}

double copy_work(uint64_t bytes, const char *direction)
{
	bool local = direction && strcmp(direction, "DtoD") == 0;

	return COPY_NS + (double)bytes / (local ? MEMORY_BYTES_PER_NS : LINK_BYTES_PER_NS);
}

void transfer_move(uint64_t dst, uint64_t src, size_t bytes)
{
	if (copying && bytes && (device_pointer(dst) || device_pointer(src)))
		memmove((void *)dst, (const void *)src, bytes);
}

CUresult transfer_time(struct truth *rec, const struct transfer *t, int kind)
{
	struct stream *stream = stream_of(t->stream, t->per_thread);
	struct moment last;
	CUresult result;

	if (rec) {
		rec->bytes = t->bytes;
		rec->direction = t->direction;
		rec->pointer = t->dst;
		rec->stream = (uint64_t)t->stream;
		rec->has |= HAS_BYTES | HAS_POINTER | (t->mode == ASYNC ? HAS_STREAM : 0);
	}
	if (!stream)
		return context_current() ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_CONTEXT;
	if (__builtin_expect(stream->capture != NULL, 0)) {
		struct capture_op op = { .kind = kind,
					 .dst = t->dst,
					 .src = t->src,
					 .bytes = t->bytes,
					 .direction = t->direction };

		if (graph_captures(stream, &op, rec))
			return CUDA_SUCCESS;
	}
	result = queue_submit(stream, copy_work(t->bytes, t->direction), rec);
	if (result != CUDA_SUCCESS || t->mode != WAITS)
		return result;
	last = queue_last(stream);
	queue_wait(stream->context->gpu, last);
	queue_release(last);
	return result;
}

CUresult transfer_copy(struct truth *rec, const struct transfer *t)
{
	struct transfer known = *t;

	if (!known.direction)
		known.direction = copy_direction(t->dst, t->src);
	transfer_move(t->dst, t->src, t->bytes);
	return transfer_time(rec, &known, NODE_MEMCPY);
}

CUresult transfer_fill(struct truth *rec, const struct transfer *t, uint32_t value, int width)
{
	struct transfer known = *t;

	known.bytes *= (size_t)width;
	if (copying && device_pointer(t->dst)) {
		for (size_t i = 0; width > 1 && i < t->bytes; i++)
			memcpy((char *)t->dst + i * (size_t)width, &value, (size_t)width);
		if (width == 1)
			memset((void *)t->dst, (int)value, t->bytes);
	}
	return transfer_time(rec, &known, NODE_MEMSET);
}
