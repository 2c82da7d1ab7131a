"""CUDA rows that look like three tenants training and serving on one GPU.

What compresses in a real recording compresses here, and no better: times jitter, durations have a
long tail, copies differ in size, and each kernel keeps its shape.
"""

from typing import Any

import numpy as np
import pyarrow as pa

TENANTS = 3
KERNELS = 61
START_NS = 1_790_000_000_000_000_000
OPS = ("launch", "memcpy", "memset", "alloc", "free", "sync")
MIX = (0.83, 0.08, 0.02, 0.02, 0.02, 0.03)
APIS = (
    "cudaLaunchKernel",
    "cudaMemcpyAsync",
    "cudaMemsetAsync",
    "cudaMalloc",
    "cudaFree",
    "cudaStreamSynchronize",
)
NAMES = ("", "[memcpy HtoD]", "[memset]", "[alloc]", "[free]", "[sync]")


def kernel_names() -> list[str]:
    """Names as long as PyTorch's are."""
    stem = "void at::native::vectorized_elementwise_kernel<4, at::native::Functor{}<float>, at::{}>"
    return [stem.format(i, "detail::Array<char*, 3>") for i in range(KERNELS)]


def cgroup_ids() -> list[int]:
    """One 63-bit id per tenant."""
    return [4_611_686_018_427_387_847 - 1_000_003 * i for i in range(TENANTS)]


def _strings(codes: Any, values: list[str], null: Any = None) -> pa.Array:
    mask = None if null is None else pa.array(null)
    indices = pa.array(codes.astype(np.int32), mask=None if mask is None else np.asarray(null))
    return pa.DictionaryArray.from_arrays(indices, pa.array(values))


def cuda_rows(rows: int, *, seed: int = 7, start_ns: int = START_NS) -> pa.Table:
    """``rows`` rows of ``cuda_events``, about 100,000 a second, in order of time."""
    rng = np.random.default_rng(seed)
    tenant = rng.choice(TENANTS, rows, p=(0.6, 0.3, 0.1))
    thread = tenant * 2 + (rng.random(rows) < 0.1)
    op = rng.choice(len(OPS), rows, p=MIX)
    launch, moves = op == 0, (op >= 1) & (op <= 4)
    kernel = np.minimum(rng.zipf(1.4, rows) - 1, KERNELS - 1)
    shape = rng.choice(np.array([1, 8, 64, 108, 216, 512, 1024, 4096]), (TENANTS, KERNELS))
    sizes = 2 ** rng.integers(8, 26, rows) + 512 * rng.integers(0, 16, rows)
    duration = (2_500 + rng.lognormal(7.2, 0.7, rows)).astype(np.int64)
    duration[op == 5] += rng.lognormal(11, 1, int((op == 5).sum())).astype(np.int64)
    stream = 0x5581_0000_0000 + thread * 0x1_3340 + np.where(launch, 0, 0x80)

    def known(values: Any, where: Any, kind: Any) -> pa.Array:
        return pa.array(values.astype(kind), mask=~where)

    name = np.where(launch, kernel + len(NAMES), op)
    return pa.table(
        {
            "timestamp_ns": start_ns + np.cumsum(rng.exponential(10_000, rows).astype(np.int64)),
            "pid": (4_000 + 17 * tenant).astype(np.int32),
            "tid": (4_000 + 17 * tenant + thread % 2).astype(np.int32),
            "cgroup_id": np.array(cgroup_ids(), dtype=np.int64)[tenant],
            "comm": _strings(thread, [f"pt_main_{i}" for i in range(2 * TENANTS)]),
            "op": _strings(op, list(OPS)),
            "api": _strings(op, list(APIS)),
            "kernel_name": _strings(name, [*NAMES, *kernel_names()]),
            "duration_ns": duration,
            "gpu": _strings(tenant * 0, ["GPU-5e1f0a52-0000-4111-8222-933344455566"]),
            "context": 0x5580_0000_1000 + tenant * 0x10_0000,
            "stream": stream,
            "grid_x": known(shape[tenant, kernel], launch, np.int32),
            "grid_y": known(shape[tenant, kernel] % 7 + 1, launch, np.int32),
            "grid_z": known(np.ones(rows), launch, np.int32),
            "block_x": known(128 + 128 * (kernel % 4), launch, np.int32),
            "block_y": known(np.ones(rows), launch, np.int32),
            "block_z": known(np.ones(rows), launch, np.int32),
            "shared_bytes": known(1024 * (kernel % 5), launch, np.int32),
            "bytes": known(sizes, moves, np.int64),
            "direction": _strings(np.where(sizes % 3 == 0, 1, 0), ["HtoD", "DtoH"], op != 1),
            "result": np.zeros(rows, dtype=np.int32),
            "weight": np.ones(rows, dtype=np.int32),
        }
    )
