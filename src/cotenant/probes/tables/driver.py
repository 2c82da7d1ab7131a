"""The CUDA driver library: the layer at which every GPU operation passes once."""

from typing import Any, Final

from cotenant.probes.function import STRUCT, Flag, Function, Library

_OP: Final = Flag.OPERATION


def _each(id: int, symbol: str, *suffixes: str, **facts: Any) -> tuple[Function, ...]:
    """A function and its twins for the per-thread default stream, numbered on from ``id``."""
    return tuple(
        Function(id + index, Library.CUDA, symbol + suffix, **facts)
        for index, suffix in enumerate(("", *suffixes))
    )


def _launches() -> tuple[Function, ...]:
    words: dict[str, Any] = {
        "op": "launch",
        "flags": _OP,
        "shape": "WORDS",
        "stack": True,
        "handle": 1,
    }
    struct: dict[str, Any] = {
        "op": "launch",
        "flags": _OP,
        "shape": "STRUCT",
        "struct": 1,
        "struct_words": 5,
    }
    return (
        *_each(1, "cuLaunchKernel", "_ptsz", stream=9, **words),
        *_each(3, "cuLaunchKernelEx", "_ptsz", handle=2, stream=STRUCT + 4, **struct),
        *_each(5, "cuLaunchCooperativeKernel", "_ptsz", stream=9, **words),
        *_each(7, "cuGraphLaunch", "_ptsz", op="graph_launch", flags=_OP, handle=1, stream=2),
    )


def _copies() -> tuple[Function, ...]:
    plain: dict[str, Any] = {"op": "memcpy", "flags": _OP, "address": 1, "bytes": (3,)}
    return (
        *_each(20, "cuMemcpy", "_ptds", **plain),
        *_each(22, "cuMemcpyAsync", "_ptsz", stream=4, **plain),
        *_each(24, "cuMemcpyHtoD_v2", "_ptds", direction="HtoD", **plain),
        *_each(26, "cuMemcpyDtoH_v2", "_ptds", direction="DtoH", **plain),
        *_each(28, "cuMemcpyDtoD_v2", "_ptds", direction="DtoD", **plain),
        *_each(30, "cuMemcpyHtoDAsync_v2", "_ptsz", direction="HtoD", stream=4, **plain),
        *_each(32, "cuMemcpyDtoHAsync_v2", "_ptsz", direction="DtoH", stream=4, **plain),
        *_each(34, "cuMemcpyDtoDAsync_v2", "_ptsz", direction="DtoD", stream=4, **plain),
    )


def _sets() -> tuple[Function, ...]:
    plain: dict[str, Any] = {"op": "memset", "flags": _OP, "address": 1, "bytes": (3,)}
    return (
        *_each(60, "cuMemsetD8_v2", "_ptds", **plain),
        *_each(62, "cuMemsetD16_v2", "_ptds", bytes_shift=1, **plain),
        *_each(64, "cuMemsetD32_v2", "_ptds", bytes_shift=2, **plain),
        *_each(66, "cuMemsetD8Async", "_ptsz", stream=4, **plain),
        *_each(68, "cuMemsetD16Async", "_ptsz", bytes_shift=1, stream=4, **plain),
        *_each(70, "cuMemsetD32Async", "_ptsz", bytes_shift=2, stream=4, **plain),
    )


def _memory() -> tuple[Function, ...]:
    alloc: dict[str, Any] = {"op": "alloc", "flags": _OP, "out": 1, "bytes": (2,)}
    free: dict[str, Any] = {"op": "free", "flags": _OP, "address": 1}
    return (
        *_each(90, "cuMemAlloc_v2", **alloc),
        *_each(91, "cuMemAllocManaged", **alloc),
        *_each(92, "cuMemAllocAsync", "_ptsz", stream=3, **alloc),
        *_each(94, "cuMemAllocHost_v2", **alloc),
        *_each(95, "cuMemHostAlloc", **alloc),
        *_each(110, "cuMemFree_v2", **free),
        *_each(111, "cuMemFreeAsync", "_ptsz", stream=2, **free),
        *_each(113, "cuMemFreeHost", **free),
    )


def _waits() -> tuple[Function, ...]:
    sync: dict[str, Any] = {"op": "sync", "flags": _OP}
    return (
        *_each(130, "cuStreamSynchronize", "_ptsz", stream=1, **sync),
        *_each(132, "cuCtxSynchronize", **sync),
        *_each(133, "cuCtxSynchronize_v2", address=1, **sync),
        *_each(134, "cuEventSynchronize", address=1, **sync),
        *_each(135, "cuStreamQuery", "_ptsz", op="query", flags=Flag.READY, stream=1),
        *_each(137, "cuEventQuery", op="query", flags=Flag.READY, address=1),
    )


def _contexts() -> tuple[Function, ...]:
    made: dict[str, Any] = {"op": "context"}
    return (
        *_each(150, "cuInit", op="init"),
        *_each(151, "cuCtxCreate_v2", flags=Flag.CONTEXT, out=1, op="context"),
        *_each(152, "cuCtxCreate_v3", flags=Flag.CONTEXT, out=1, op="context"),
        *_each(153, "cuCtxCreate_v4", flags=Flag.CONTEXT, out=1, op="context"),
        *_each(154, "cuCtxSetCurrent", flags=Flag.CONTEXT, address=1, op="context"),
        *_each(155, "cuCtxPushCurrent_v2", flags=Flag.CONTEXT, address=1, op="context"),
        *_each(156, "cuDevicePrimaryCtxRetain", out=1, **made),
        *_each(157, "cuCtxDestroy_v2", address=1, **made),
    )


FUNCTIONS: Final = (
    *_launches(),
    *_copies(),
    *_sets(),
    *_memory(),
    *_waits(),
    *_contexts(),
)
