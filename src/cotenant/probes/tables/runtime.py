"""The CUDA runtime library: the caller's view of a driver call, merged with it into one row."""

from typing import Any, Final

from cotenant.probes.function import STRUCT, Flag, Function, Library

_OP: Final = Flag.OPERATION


def _each(id: int, symbol: str, *suffixes: str, **facts: Any) -> tuple[Function, ...]:
    """A function and its twins for the per-thread default stream, numbered on from ``id``."""
    return tuple(
        Function(id + index, Library.CUDART, symbol + suffix, **facts)
        for index, suffix in enumerate(("", *suffixes))
    )


def _launches() -> tuple[Function, ...]:
    stub: dict[str, Any] = {"op": "launch", "flags": _OP | Flag.HANDLE_STUB}
    packed: dict[str, Any] = {**stub, "shape": "PACKED", "stack": True, "handle": 1, "stream": 8}
    return (
        *_each(300, "cudaLaunchKernel", "_ptsz", **packed),
        *_each(302, "cudaLaunchCooperativeKernel", "_ptsz", **packed),
        *_each(
            304,
            "cudaLaunchKernelExC",
            "_ptsz",
            shape="STRUCT",
            struct=1,
            struct_words=5,
            handle=2,
            stream=STRUCT + 4,
            **stub,
        ),  # fmt: skip
        *_each(306, "cudaGraphLaunch", "_ptsz", op="graph_launch", flags=_OP, handle=1, stream=2),
    )


def _copies() -> tuple[Function, ...]:
    plain: dict[str, Any] = {"flags": _OP, "address": 1, "bytes": (3,)}
    return (
        *_each(320, "cudaMemcpy", "_ptds", op="memcpy", direction_slot=4, **plain),
        *_each(322, "cudaMemcpyAsync", "_ptsz", op="memcpy", direction_slot=4, stream=5, **plain),
        *_each(360, "cudaMemset", "_ptds", op="memset", **plain),
        *_each(362, "cudaMemsetAsync", "_ptsz", op="memset", stream=4, **plain),
    )


def _memory() -> tuple[Function, ...]:
    alloc: dict[str, Any] = {"op": "alloc", "flags": _OP, "out": 1, "bytes": (2,)}
    free: dict[str, Any] = {"op": "free", "flags": _OP, "address": 1}
    return (
        *_each(390, "cudaMalloc", **alloc),
        *_each(391, "cudaMallocManaged", **alloc),
        *_each(392, "cudaMallocAsync", "_ptsz", stream=3, **alloc),
        *_each(394, "cudaMallocHost", **alloc),
        *_each(395, "cudaHostAlloc", **alloc),
        *_each(410, "cudaFree", **free),
        *_each(411, "cudaFreeAsync", "_ptsz", stream=2, **free),
        *_each(413, "cudaFreeHost", **free),
    )


def _waits() -> tuple[Function, ...]:
    sync: dict[str, Any] = {"op": "sync", "flags": _OP}
    return (
        *_each(430, "cudaStreamSynchronize", "_ptsz", stream=1, **sync),
        *_each(432, "cudaDeviceSynchronize", **sync),
        *_each(434, "cudaEventSynchronize", address=1, **sync),
    )


FUNCTIONS: Final = (*_launches(), *_copies(), *_memory(), *_waits())
