"""The CUDA runtime library: the caller's view of a driver call, merged with it into one row.

Signatures are those of cuda_runtime_api.h. Where one symbol has had two signatures, only the
arguments that both have are read; the driver's call inside knows the rest.
"""

from typing import Any, Final

from cotenant.probes.function import STRUCT, Flag, Function, Library

_OP: Final = Flag.OPERATION
_ROW: Final = Flag.ROW


def _each(id: int, symbol: str, *suffixes: str, **facts: Any) -> tuple[Function, ...]:
    """A function and its twins for the per-thread default stream, numbered on from ``id``."""
    return tuple(
        Function(id + index, Library.CUDART, symbol + suffix, **facts)
        for index, suffix in enumerate(("", *suffixes))
    )


def _launches() -> tuple[Function, ...]:
    stub: dict[str, Any] = {"op": "launch", "flags": _OP | Flag.HANDLE_STUB}
    packed: dict[str, Any] = {**stub, "shape": "PACKED", "stack": True, "handle": 1, "stream": 8}
    struct: dict[str, Any] = {**stub, "shape": "STRUCT", "struct": 1, "struct_words": 5}
    several: dict[str, Any] = {
        "op": "launch", "flags": _OP | Flag.HANDLE_STUB | Flag.SEVERAL, "struct": 1,
        "struct_words": 7, "handle": STRUCT, "stream": STRUCT + 6,
    }  # fmt: skip
    return (
        *_each(300, "cudaLaunchKernel", "_ptsz", **packed),
        *_each(302, "cudaLaunchCooperativeKernel", "_ptsz", **packed),
        *_each(304, "cudaLaunchKernelExC", "_ptsz", handle=2, stream=STRUCT + 4, **struct),
        *_each(944, "cudaLaunchCooperativeKernelMultiDevice", **several),
        *_each(306, "cudaGraphLaunch", "_ptsz", op="graph_launch", flags=_OP, handle=1, stream=2),
        *_each(308, "cudaLaunchHostFunc", "_ptsz", op="host", flags=_OP, stream=1),
        *_each(900, "cudaLaunchHostFunc_v2", "_ptsz", op="host", flags=_OP, stream=1),
        *_each(310, "cudaStreamAddCallback", "_ptsz", op="host", flags=_OP, stream=1),
    )


def _copies() -> tuple[Function, ...]:
    plain: dict[str, Any] = {"op": "memcpy", "flags": _OP, "address": 1, "bytes": (3,)}
    kind: dict[str, Any] = {**plain, "direction_slot": 4}
    symbol: dict[str, Any] = {**plain, "direction_slot": 5}
    peer: dict[str, Any] = {**plain, "bytes": (5,), "direction": "DtoD"}
    batch: dict[str, Any] = {"op": "memcpy", "flags": _OP | Flag.BATCH, "bytes": (3, 4)}
    many: dict[str, Any] = {"op": "memcpy", "flags": _OP}
    return (
        *_each(320, "cudaMemcpy", "_ptds", **kind),
        *_each(322, "cudaMemcpyAsync", "_ptsz", stream=5, **kind),
        *_each(324, "cudaMemcpyToSymbol", "_ptds", **symbol),
        *_each(326, "cudaMemcpyFromSymbol", "_ptds", **symbol),
        *_each(328, "cudaMemcpyToSymbolAsync", "_ptsz", stream=6, **symbol),
        *_each(330, "cudaMemcpyFromSymbolAsync", "_ptsz", stream=6, **symbol),
        *_each(332, "cudaMemcpyPeer", **peer),
        *_each(333, "cudaMemcpyPeerAsync", stream=6, **peer),
        *_each(334, "cudaMemcpyBatchAsync", "_ptsz", **batch),
        *_each(902, "cudaMemcpyWithAttributesAsync", "_ptsz", stream=5, **plain),
        *_each(904, "cudaMemcpy3DWithAttributesAsync", "_ptsz", stream=3, **many),
        *_each(906, "cudaMemcpy3DBatchAsync", "_ptsz", **many),
    )


def _shaped_copies() -> tuple[Function, ...]:
    flat: dict[str, Any] = {
        "op": "memcpy", "flags": _OP, "stack": True, "address": 1, "bytes": (5, 6),
        "direction_slot": 7,
    }  # fmt: skip
    array: dict[str, Any] = {**flat, "bytes": (6, 7), "direction_slot": 8}
    deep: dict[str, Any] = {
        "op": "memcpy", "flags": _OP, "struct": 1, "struct_offset": 128, "struct_words": 4,
        "bytes": (STRUCT, STRUCT + 1, STRUCT + 2), "direction_slot": STRUCT + 3,
    }  # fmt: skip
    peer: dict[str, Any] = {
        "op": "memcpy", "flags": _OP, "struct": 1, "struct_offset": 144, "struct_words": 3,
        "bytes": (STRUCT, STRUCT + 1, STRUCT + 2), "direction": "DtoD",
    }  # fmt: skip
    return (
        *_each(336, "cudaMemcpy2D", "_ptds", **flat),
        *_each(338, "cudaMemcpy2DAsync", "_ptsz", stream=8, **flat),
        *_each(340, "cudaMemcpy2DToArray", "_ptds", **array),
        *_each(342, "cudaMemcpy2DToArrayAsync", "_ptsz", stream=9, **array),
        *_each(344, "cudaMemcpy2DFromArray", "_ptds", **array),
        *_each(346, "cudaMemcpy2DFromArrayAsync", "_ptsz", stream=9, **array),
        *_each(348, "cudaMemcpy3D", "_ptds", **deep),
        *_each(350, "cudaMemcpy3DAsync", "_ptsz", stream=2, **deep),
        *_each(352, "cudaMemcpy3DPeer", "_ptds", **peer),
        *_each(354, "cudaMemcpy3DPeerAsync", "_ptsz", stream=2, **peer),
    )


def _array_copies() -> tuple[Function, ...]:
    plain: dict[str, Any] = {"op": "memcpy", "flags": _OP, "bytes": (5,), "direction_slot": 6}
    within: dict[str, Any] = {"op": "memcpy", "flags": _OP, "stack": True}
    return (
        *_each(908, "cudaMemcpyToArray", "_ptds", **plain),
        *_each(910, "cudaMemcpyFromArray", "_ptds", **plain),
        *_each(912, "cudaMemcpyToArrayAsync", "_ptsz", stack=True, stream=7, **plain),
        *_each(914, "cudaMemcpyFromArrayAsync", "_ptsz", stack=True, stream=7, **plain),
        *_each(916, "cudaMemcpyArrayToArray", "_ptds", bytes=(7,), direction_slot=8, **within),
        *_each(918, "cudaMemcpy2DArrayToArray", "_ptds", bytes=(7, 8), direction_slot=9, **within),
    )


def _sets() -> tuple[Function, ...]:
    plain: dict[str, Any] = {"op": "memset", "flags": _OP, "address": 1, "bytes": (3,)}
    flat: dict[str, Any] = {**plain, "bytes": (4, 5)}
    prefetch: dict[str, Any] = {"op": "prefetch", "flags": _OP, "address": 1, "bytes": (2,)}
    batch: dict[str, Any] = {"flags": _OP | Flag.BATCH, "bytes": (2, 3), "stack": True}
    return (
        *_each(360, "cudaMemset", "_ptds", **plain),
        *_each(362, "cudaMemsetAsync", "_ptsz", stream=4, **plain),
        *_each(364, "cudaMemset2D", "_ptds", **flat),
        *_each(366, "cudaMemset2DAsync", "_ptsz", stream=6, **flat),
        *_each(368, "cudaMemset3D", "_ptds", op="memset", flags=_OP),
        *_each(370, "cudaMemset3DAsync", "_ptsz", op="memset", flags=_OP, stream=2),
        *_each(372, "cudaMemPrefetchAsync", "_ptsz", **prefetch),
        *_each(374, "cudaMemPrefetchAsync_v2", "_ptsz", stream=5, **prefetch),
        *_each(920, "cudaMemPrefetchBatchAsync", "_ptsz", op="prefetch", stream=8, **batch),
        *_each(922, "cudaMemDiscardBatchAsync", "_ptsz", op="discard", stream=5, **batch),
        *_each(
            924, "cudaMemDiscardAndPrefetchBatchAsync", "_ptsz", op="prefetch", stream=8, **batch
        ),
    )


def _memory() -> tuple[Function, ...]:
    alloc: dict[str, Any] = {"op": "alloc", "flags": _OP, "out": 1, "bytes": (2,), "step": "ALLOC"}
    free: dict[str, Any] = {"op": "free", "flags": _OP, "address": 1, "step": "FREE"}
    host: dict[str, Any] = {"op": "alloc", "flags": _OP | Flag.HOST, "bytes": (2,), "step": "ALLOC"}
    unhost: dict[str, Any] = {**free, "flags": _OP | Flag.HOST}
    return (
        *_each(390, "cudaMalloc", **alloc),
        *_each(391, "cudaMallocManaged", **alloc),
        *_each(392, "cudaMallocAsync", "_ptsz", stream=3, **alloc),
        *_each(394, "cudaMallocHost", out=1, **host),
        *_each(395, "cudaHostAlloc", out=1, **host),
        *_each(396, "cudaHostRegister", address=1, **host),
        *_each(397, "cudaMallocPitch", out_bytes=2, **{**alloc, "bytes": (4,)}),
        *_each(398, "cudaMallocFromPoolAsync", "_ptsz", stream=4, **alloc),
        *_each(410, "cudaFree", **free),
        *_each(411, "cudaFreeAsync", "_ptsz", stream=2, **free),
        *_each(413, "cudaFreeHost", **unhost),
        *_each(414, "cudaHostUnregister", **unhost),
        *_each(415, "cudaMemPoolCreate", op="pool", flags=_ROW, out=1),
        *_each(416, "cudaMemPoolDestroy", op="pool", flags=_ROW, address=1),
        *_each(417, "cudaMemPoolTrimTo", op="pool", flags=_ROW, address=1, bytes=(2,)),
    )


def _more_memory() -> tuple[Function, ...]:
    """Arrays and padded rows, whose bytes only the driver knows; other processes' memory."""
    alloc: dict[str, Any] = {"op": "alloc", "flags": _OP, "out": 1}
    free: dict[str, Any] = {"op": "free", "flags": _OP, "address": 1}
    return (
        *_each(926, "cudaMalloc3D", **alloc),
        *_each(927, "cudaMallocArray", **alloc),
        *_each(928, "cudaMalloc3DArray", **alloc),
        *_each(929, "cudaMallocMipmappedArray", **alloc),
        *_each(930, "cudaFreeArray", **free),
        *_each(931, "cudaFreeMipmappedArray", **free),
        *_each(939, "cudaIpcOpenMemHandle", op="map", flags=_ROW, out=1),
        *_each(940, "cudaIpcCloseMemHandle", op="map", flags=_ROW, address=1),
        *_each(943, "cudaDeviceGraphMemTrim", op="pool", flags=_ROW),
    )


def _waits() -> tuple[Function, ...]:
    sync: dict[str, Any] = {"op": "sync", "flags": _OP}
    return (
        *_each(430, "cudaStreamSynchronize", "_ptsz", stream=1, **sync),
        *_each(432, "cudaDeviceSynchronize", **sync),
        *_each(433, "cudaThreadSynchronize", **sync),
        *_each(434, "cudaEventSynchronize", op="sync", flags=_OP | Flag.EVENT, address=1),
        *_each(932, "cudaExecutionCtxSynchronize", **sync),
        *_each(933, "cudaDeviceFlushGPUDirectRDMAWrites", **sync),
        *_each(435, "cudaStreamQuery", "_ptsz", op="query", flags=Flag.READY, stream=1),
        *_each(437, "cudaEventQuery", op="query", flags=Flag.READY | Flag.EVENT, address=1),
    )


def _events() -> tuple[Function, ...]:
    event: dict[str, Any] = {"op": "event", "flags": _ROW}
    stream: dict[str, Any] = {"op": "stream", "flags": _ROW}
    return (
        *_each(440, "cudaEventCreate", out=1, **event),
        *_each(441, "cudaEventCreateWithFlags", out=1, **event),
        *_each(442, "cudaEventDestroy", address=1, **event),
        *_each(443, "cudaEventRecord", "_ptsz", address=1, stream=2, **event),
        *_each(445, "cudaEventRecordWithFlags", "_ptsz", address=1, stream=2, **event),
        *_each(447, "cudaStreamWaitEvent", "_ptsz", stream=1, address=2, **event),
        *_each(449, "cudaEventElapsedTime", address=3, **event),
        *_each(450, "cudaEventElapsedTime_v2", address=3, **event),
        *_each(934, "cudaExecutionCtxRecordEvent", address=2, **event),
        *_each(935, "cudaExecutionCtxWaitEvent", address=2, **event),
        *_each(936, "cudaExecutionCtxStreamCreate", out=1, **stream),
        *_each(451, "cudaStreamCreate", out=1, **stream),
        *_each(452, "cudaStreamCreateWithFlags", out=1, **stream),
        *_each(453, "cudaStreamCreateWithPriority", out=1, **stream),
        *_each(454, "cudaStreamDestroy", stream=1, **stream),
        *_each(455, "cudaDeviceReset", op="context", flags=_ROW),
        *_each(945, "cudaThreadExit", op="context", flags=_ROW),
        *_each(937, "cudaGreenCtxCreate", op="context", flags=_ROW, out=1),
        *_each(938, "cudaExecutionCtxDestroy", op="context", flags=_ROW, address=1),
    )


FUNCTIONS: Final = (
    *_launches(),
    *_copies(),
    *_shaped_copies(),
    *_array_copies(),
    *_sets(),
    *_memory(),
    *_more_memory(),
    *_waits(),
    *_events(),
)
