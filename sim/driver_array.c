// SPDX-License-Identifier: Apache-2.0
/* Copies to and from arrays, which have no memory here, and in batches of boxes. */
#include "copy.h"

/* An end without an address is an array. */
static CUresult copy(struct truth *rec, uint64_t dst, uint64_t src, size_t bytes,
		     const char *direction, struct transfer t)
{
	t.dst = dst;
	t.src = src;
	t.bytes = bytes;
	t.direction = direction;
	return transfer_time(rec, &t, NODE_MEMCPY);
}

#define WAIT ((struct transfer){ .mode = WAITS })
#define WAIT_OWN ((struct transfer){ .mode = WAITS, .per_thread = true })
#define QUEUE ((struct transfer){ .stream = stream })
#define QUEUE_OWN ((struct transfer){ .stream = stream, .per_thread = true })

#define ARRAY_COPY(name, params, dst, src, way, how) \
	EXPORT CUresult name params \
	{ \
		CALL("memcpy"); \
		DONE(copy(rec, (uint64_t)(dst), (uint64_t)(src), n, way, how)); \
	}

#define UNUSED __attribute__((unused))
#define A_TO_A \
	(void *to UNUSED, size_t to_offset UNUSED, void *from UNUSED, size_t offset UNUSED, \
	 size_t n)
#define A_TO_D (CUdeviceptr to, void *from UNUSED, size_t offset UNUSED, size_t n)
#define D_TO_A (void *to UNUSED, size_t offset UNUSED, CUdeviceptr from, size_t n)
#define A_TO_H (void *to, void *from UNUSED, size_t offset UNUSED, size_t n)
#define H_TO_A (void *to UNUSED, size_t offset UNUSED, const void *from, size_t n)
#define A_TO_H_ASYNC (void *to, void *from UNUSED, size_t offset UNUSED, size_t n, CUstream stream)
#define H_TO_A_ASYNC \
	(void *to UNUSED, size_t offset UNUSED, const void *from, size_t n, CUstream stream)

ARRAY_COPY(cuMemcpyAtoA_v2, A_TO_A, 0, 0, "DtoD", WAIT)
ARRAY_COPY(cuMemcpyAtoA_v2_ptds, A_TO_A, 0, 0, "DtoD", WAIT_OWN)
ARRAY_COPY(cuMemcpyAtoD_v2, A_TO_D, to, 0, "DtoD", WAIT)
ARRAY_COPY(cuMemcpyAtoD_v2_ptds, A_TO_D, to, 0, "DtoD", WAIT_OWN)
ARRAY_COPY(cuMemcpyDtoA_v2, D_TO_A, 0, from, "DtoD", WAIT)
ARRAY_COPY(cuMemcpyDtoA_v2_ptds, D_TO_A, 0, from, "DtoD", WAIT_OWN)
ARRAY_COPY(cuMemcpyAtoH_v2, A_TO_H, to, 0, "DtoH", WAIT)
ARRAY_COPY(cuMemcpyAtoH_v2_ptds, A_TO_H, to, 0, "DtoH", WAIT_OWN)
ARRAY_COPY(cuMemcpyHtoA_v2, H_TO_A, 0, from, "HtoD", WAIT)
ARRAY_COPY(cuMemcpyHtoA_v2_ptds, H_TO_A, 0, from, "HtoD", WAIT_OWN)
ARRAY_COPY(cuMemcpyAtoHAsync_v2, A_TO_H_ASYNC, to, 0, "DtoH", QUEUE)
ARRAY_COPY(cuMemcpyAtoHAsync_v2_ptsz, A_TO_H_ASYNC, to, 0, "DtoH", QUEUE_OWN)
ARRAY_COPY(cuMemcpyHtoAAsync_v2, H_TO_A_ASYNC, 0, from, "HtoD", QUEUE)
ARRAY_COPY(cuMemcpyHtoAAsync_v2_ptsz, H_TO_A_ASYNC, 0, from, "HtoD", QUEUE_OWN)

struct box_copy {
	uint64_t src[5], dst[5];
	size_t extent[3];
	uint32_t order, flags;
};
_Static_assert(sizeof(struct box_copy) == 112, "CUDA_MEMCPY3D_BATCH_OP");

static CUresult boxes(struct truth *rec, size_t n, const struct box_copy *copies, struct transfer t)
{
	if (!copies || !n)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n; i++)
		t.bytes += copies[i].extent[0] * copies[i].extent[1] * copies[i].extent[2];
	return transfer_time(rec, &t, NODE_MEMCPY);
}

#define BOXES(name, params, how) \
	EXPORT CUresult name params \
	{ \
		CALL("memcpy"); \
		DONE(boxes(rec, n, copies, how)); \
	}
#define BOXES_FAILING \
	(size_t n, struct box_copy *copies, size_t *failed UNUSED, \
	 unsigned long long flags UNUSED, CUstream stream)
#define BOXES_PLAIN \
	(size_t n, struct box_copy *copies, unsigned long long flags UNUSED, CUstream stream)

BOXES(cuMemcpy3DBatchAsync, BOXES_FAILING, QUEUE)
BOXES(cuMemcpy3DBatchAsync_ptsz, BOXES_FAILING, QUEUE_OWN)
BOXES(cuMemcpy3DBatchAsync_v2, BOXES_PLAIN, QUEUE)
BOXES(cuMemcpy3DBatchAsync_v2_ptsz, BOXES_PLAIN, QUEUE_OWN)

#define PREFETCH_PARAMS \
	CUdeviceptr *addresses, size_t *sizes, size_t count, CUmemLocation *locations, \
		size_t *indices, size_t n, unsigned long long flags, CUstream stream

static CUresult prefetch(struct truth *rec, CUdeviceptr *addresses, size_t *sizes, size_t count,
			 struct transfer t)
{
	if (!addresses || !sizes || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++)
		t.bytes += sizes[i];
	t.dst = addresses[0];
	t.direction = "HtoD";
	return transfer_time(rec, &t, NODE_MEMCPY);
}

EXPORT CUresult cuMemPrefetchBatchAsync(PREFETCH_PARAMS)
{
	CALL("prefetch");
	(void)locations;
	(void)indices;
	(void)n;
	(void)flags;
	DONE(prefetch(rec, addresses, sizes, count, QUEUE));
}

EXPORT CUresult cuMemPrefetchBatchAsync_ptsz(PREFETCH_PARAMS)
{
	CALL("prefetch");
	(void)locations;
	(void)indices;
	(void)n;
	(void)flags;
	DONE(prefetch(rec, addresses, sizes, count, QUEUE_OWN));
}
