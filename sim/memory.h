/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include "driver.h"

enum memory_kind { KIND_DEVICE = 1, KIND_MANAGED, KIND_HOST };

/* Device memory is ordinary memory in one large range of addresses of its own. */
CUresult memory_new(CUdeviceptr *out, size_t bytes, enum memory_kind kind);
CUresult memory_free(CUdeviceptr address, size_t *bytes);
CUresult memory_find(CUdeviceptr address, CUdeviceptr *base, size_t *bytes, enum memory_kind *kind);
CUresult memory_charge(struct gpu *gpu, int64_t bytes);
CUresult memory_host_new(void **out, size_t bytes);
CUresult memory_host_free(void *address, size_t *bytes);
CUdeviceptr memory_reserve(size_t bytes);

void note_memory(struct truth *rec, uint64_t pointer, uint64_t bytes);

#endif
