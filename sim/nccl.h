/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators, and where their ranks meet. */
#ifndef SIM_NCCL_H
#define SIM_NCCL_H

#include <stdbool.h>

#include "cuda_abi.h"
#include "private.h"

typedef int ncclResult_t;
typedef struct comm *ncclComm_t;

typedef struct {
	char bytes[128];
} ncclUniqueId;

enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclSystemError = 2,
	ncclInternalError = 3,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclInProgress = 7
};

#define RANKS 64
#define COLLECTIVE_SLOTS 256
#define PAIR_SLOTS 16
#define SPLIT_SLOTS 16

/* In shared memory; unlinked as soon as everybody is there. */
struct meeting {
	uint64_t hash;
	_Atomic uint32_t joined;
	struct split {
		_Atomic uint32_t posted; /* ever */
		int32_t color[RANKS], key[RANKS];
	} splits[SPLIT_SLOTS];
	struct gate_slot collectives[COLLECTIVE_SLOTS];
	struct gate_slot pairs[]; /* [from][to][PAIR_SLOTS] */
};

struct comm {
	uint64_t magic;
	uint64_t hash;
	int rank, nranks, device;
	_Atomic uint32_t aborted;
	struct meeting *meeting;
	CUcontext context;
	uint32_t operations, splits, shrinks;
	uint32_t sent[RANKS], received[RANKS];
};

struct nccl_driver {
	CUresult (*cuInit)(unsigned);
	CUresult (*cuCtxGetCurrent)(CUcontext *);
	CUresult (*cuCtxSetCurrent)(CUcontext);
	CUresult (*cuCtxGetDevice)(CUdevice *);
	CUresult (*cuDevicePrimaryCtxRetain)(CUcontext *, CUdevice);
	CUresult (*cuLibraryLoadData)(CUlibrary *, const void *, int *, void **, unsigned, int *,
				      void **, unsigned);
	CUresult (*cuLibraryGetKernel)(CUkernel *, CUlibrary, const char *);
	CUresult (*cuKernelGetFunction)(CUfunction *, CUkernel);
	CUresult (*cuLaunchKernelEx)(const CUlaunchConfig *, CUfunction, void **, void **);
	CUresult (*cuMemCreate)(CUmemGenericAllocationHandle *, size_t, const void *,
				unsigned long long);
	CUresult (*cuMemAlloc)(CUdeviceptr *, size_t);
	CUresult (*cuMemFree)(CUdeviceptr);
	CUresult (*cuGetExportTable)(const void **, const CUuuid *);
};

extern struct nccl_driver cu;
extern const struct private_table *private_table;

/* Every function is exported under two names, as in the real library. */
#define TWIN(name) EXPORT extern __typeof(name) p##name __attribute__((alias(#name)))

ncclResult_t driver_load(void);

/* What a call asks for; launched at once, or by the outermost ncclGroupEnd. */
struct task {
	struct task *next;
	const char *op;
	struct comm *comm;
	size_t count;
	int datatype, reduce_op, root, peer;
	CUstream stream;
	bool done;
};

size_t datatype_bytes(int datatype);
ncclResult_t tasks_launch(struct task *tasks);
bool comm_valid(const struct comm *comm);

/* comm.c, for the group: begin without waiting, then wait. */
struct joining {
	struct joining *next;
	struct comm *comm;
};
ncclResult_t comm_begin(struct comm **out, int nranks, uint64_t hash, int rank, int device);
ncclResult_t comm_wait(struct comm *comm);
bool group_defers(struct comm *comm);

#endif
