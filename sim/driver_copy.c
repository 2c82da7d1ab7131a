// SPDX-License-Identifier: Apache-2.0
/* Copies and memsets of one dimension; each has a twin for the per-thread stream. */
#include "copy.h"

#define COPY(name, direction, dst_type, src_type) \
	EXPORT CUresult name(dst_type dst, src_type src, size_t bytes) \
	{ \
		CALL("memcpy"); \
		DONE(transfer_copy(rec, &(struct transfer){ (uint64_t)dst, (uint64_t)src, bytes, \
							    direction, NULL, WAITS, false })); \
	} \
	EXPORT CUresult name##_ptds(dst_type dst, src_type src, size_t bytes) \
	{ \
		CALL("memcpy"); \
		DONE(transfer_copy(rec, &(struct transfer){ (uint64_t)dst, (uint64_t)src, bytes, \
							    direction, NULL, WAITS, true })); \
	}

#define COPY_ASYNC(name, direction, dst_type, src_type) \
	EXPORT CUresult name(dst_type dst, src_type src, size_t bytes, CUstream stream) \
	{ \
		CALL("memcpy"); \
		DONE(transfer_copy(rec, &(struct transfer){ (uint64_t)dst, (uint64_t)src, bytes, \
							    direction, stream, ASYNC, false })); \
	} \
	EXPORT CUresult name##_ptsz(dst_type dst, src_type src, size_t bytes, CUstream stream) \
	{ \
		CALL("memcpy"); \
		DONE(transfer_copy(rec, &(struct transfer){ (uint64_t)dst, (uint64_t)src, bytes, \
							    direction, stream, ASYNC, true })); \
	}

COPY(cuMemcpy, NULL, CUdeviceptr, CUdeviceptr)
COPY(cuMemcpyHtoD_v2, "HtoD", CUdeviceptr, const void *)
COPY(cuMemcpyDtoH_v2, "DtoH", void *, CUdeviceptr)
COPY(cuMemcpyDtoD_v2, "DtoD", CUdeviceptr, CUdeviceptr)
COPY_ASYNC(cuMemcpyAsync, NULL, CUdeviceptr, CUdeviceptr)
COPY_ASYNC(cuMemcpyHtoDAsync_v2, "HtoD", CUdeviceptr, const void *)
COPY_ASYNC(cuMemcpyDtoHAsync_v2, "DtoH", void *, CUdeviceptr)
COPY_ASYNC(cuMemcpyDtoDAsync_v2, "DtoD", CUdeviceptr, CUdeviceptr)

#define FILL(name, type, width) \
	EXPORT CUresult name##_v2(CUdeviceptr dst, type value, size_t n) \
	{ \
		CALL("memset"); \
		DONE(transfer_fill(rec, \
				   &(struct transfer){ dst, 0, n, NULL, NULL, RETURNS, false }, \
				   value, width)); \
	} \
	EXPORT CUresult name##_v2_ptds(CUdeviceptr dst, type value, size_t n) \
	{ \
		CALL("memset"); \
		DONE(transfer_fill(rec, \
				   &(struct transfer){ dst, 0, n, NULL, NULL, RETURNS, true }, \
				   value, width)); \
	} \
	EXPORT CUresult name##Async(CUdeviceptr dst, type value, size_t n, CUstream stream) \
	{ \
		CALL("memset"); \
		DONE(transfer_fill(rec, \
				   &(struct transfer){ dst, 0, n, NULL, stream, ASYNC, false }, \
				   value, width)); \
	} \
	EXPORT CUresult name##Async_ptsz(CUdeviceptr dst, type value, size_t n, CUstream stream) \
	{ \
		CALL("memset"); \
		DONE(transfer_fill(rec, \
				   &(struct transfer){ dst, 0, n, NULL, stream, ASYNC, true }, \
				   value, width)); \
	}

FILL(cuMemsetD8, unsigned char, 1)
FILL(cuMemsetD16, unsigned short, 2)
FILL(cuMemsetD32, unsigned, 4)
