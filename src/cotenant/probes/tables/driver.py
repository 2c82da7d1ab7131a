"""The CUDA driver library: the layer at which every GPU operation passes once.

Signatures are those of cuda.h; a slot is the argument's place in them. Numbers are stored in
every file ever written: a new function takes a number that no other ever had.
"""

from typing import Any, Final

from cotenant.probes.function import STRUCT, Flag, Function, Library

_OP: Final = Flag.OPERATION
_ROW: Final = Flag.ROW
_FOREIGN: Final = Flag.FOREIGN

# The context that it hands out is on the device of the green context that it is given.
GREEN: Final = 827


def _each(id: int, symbol: str, *suffixes: str, **facts: Any) -> tuple[Function, ...]:
    """A function and its twins for the per-thread default stream, numbered on from ``id``."""
    return tuple(
        Function(id + index, Library.CUDA, symbol + suffix, **facts)
        for index, suffix in enumerate(("", *suffixes))
    )


def _launches() -> tuple[Function, ...]:
    launch: dict[str, Any] = {"op": "launch", "flags": _OP}
    words: dict[str, Any] = {**launch, "shape": "WORDS", "stack": True, "handle": 1, "stream": 9}
    struct: dict[str, Any] = {**launch, "shape": "STRUCT", "struct": 1, "struct_words": 5}
    several: dict[str, Any] = {
        **launch, "flags": _OP | Flag.SEVERAL, "struct": 1, "struct_words": 6,
    }  # fmt: skip
    return (
        *_each(1, "cuLaunchKernel", "_ptsz", **words),
        *_each(3, "cuLaunchKernelEx", "_ptsz", handle=2, stream=STRUCT + 4, **struct),
        *_each(5, "cuLaunchCooperativeKernel", "_ptsz", **words),
        *_each(7, "cuGraphLaunch", "_ptsz", op="graph_launch", flags=_OP, handle=1, stream=2),
        *_each(9, "cuLaunchHostFunc", "_ptsz", op="host", flags=_OP | _FOREIGN, stream=1),
        *_each(800, "cuLaunchHostFunc_v2", "_ptsz", op="host", flags=_OP | _FOREIGN, stream=1),
        *_each(
            11, "cuLaunchCooperativeKernelMultiDevice", handle=STRUCT, stream=STRUCT + 5, **several
        ),
        *_each(12, "cuLaunch", handle=1, **launch),
        *_each(13, "cuLaunchGrid", handle=1, **launch),
        *_each(14, "cuLaunchGridAsync", handle=1, stream=4, **launch),
    )


def _copies() -> tuple[Function, ...]:
    plain: dict[str, Any] = {"op": "memcpy", "flags": _OP, "address": 1, "bytes": (3,)}
    peer: dict[str, Any] = {**plain, "bytes": (5,), "direction": "DtoD"}
    return (
        *_each(20, "cuMemcpy", "_ptds", **plain),
        *_each(22, "cuMemcpyAsync", "_ptsz", stream=4, **plain),
        *_each(24, "cuMemcpyHtoD_v2", "_ptds", direction="HtoD", **plain),
        *_each(26, "cuMemcpyDtoH_v2", "_ptds", direction="DtoH", **plain),
        *_each(28, "cuMemcpyDtoD_v2", "_ptds", direction="DtoD", **plain),
        *_each(30, "cuMemcpyHtoDAsync_v2", "_ptsz", direction="HtoD", stream=4, **plain),
        *_each(32, "cuMemcpyDtoHAsync_v2", "_ptsz", direction="DtoH", stream=4, **plain),
        *_each(34, "cuMemcpyDtoDAsync_v2", "_ptsz", direction="DtoD", stream=4, **plain),
        *_each(36, "cuMemcpyPeer", "_ptds", **peer),
        *_each(38, "cuMemcpyPeerAsync", "_ptsz", stream=6, **peer),
        *_each(802, "cuMemcpyWithAttributesAsync", "_ptsz", stream=5, **plain),
    )


def _shaped_copies() -> tuple[Function, ...]:
    copy: dict[str, Any] = {"op": "memcpy", "flags": _OP, "struct": 1}
    flat: dict[str, Any] = {
        **copy, "struct_offset": 112, "struct_words": 2, "bytes": (STRUCT, STRUCT + 1),
        "source_type": 16, "target_type": 72,
    }  # fmt: skip
    deep: dict[str, Any] = {
        **copy, "struct_offset": 176, "struct_words": 3,
        "bytes": (STRUCT, STRUCT + 1, STRUCT + 2), "source_type": 32, "target_type": 120,
    }  # fmt: skip
    batch: dict[str, Any] = {
        "op": "memcpy", "flags": _OP | Flag.BATCH, "bytes": (3, 4), "stack": True,
    }  # fmt: skip
    many: dict[str, Any] = {"op": "memcpy", "flags": _OP}
    return (
        *_each(40, "cuMemcpy2D_v2", "_ptds", **flat),
        *_each(42, "cuMemcpy2DUnaligned_v2", "_ptds", **flat),
        *_each(44, "cuMemcpy2DAsync_v2", "_ptsz", stream=2, **flat),
        *_each(46, "cuMemcpy3D_v2", "_ptds", **deep),
        *_each(48, "cuMemcpy3DAsync_v2", "_ptsz", stream=2, **deep),
        *_each(50, "cuMemcpy3DPeer", "_ptds", **deep),
        *_each(52, "cuMemcpy3DPeerAsync", "_ptsz", stream=2, **deep),
        *_each(54, "cuMemcpyBatchAsync_v2", "_ptsz", stream=8, **batch),
        *_each(56, "cuMemcpyBatchAsync", "_ptsz", stream=9, **batch),
        *_each(58, "cuMemcpy3DBatchAsync", "_ptsz", stream=5, **many),
        *_each(200, "cuMemcpy3DBatchAsync_v2", "_ptsz", stream=4, **many),
        *_each(804, "cuMemcpy3DWithAttributesAsync", "_ptsz", stream=3, **many),
    )


def _array_copies() -> tuple[Function, ...]:
    plain: dict[str, Any] = {"op": "memcpy", "flags": _OP, "bytes": (4,)}
    return (
        *_each(202, "cuMemcpyDtoA_v2", "_ptds", direction="DtoD", **plain),
        *_each(204, "cuMemcpyAtoD_v2", "_ptds", direction="DtoD", **plain),
        *_each(206, "cuMemcpyHtoA_v2", "_ptds", direction="HtoD", **plain),
        *_each(208, "cuMemcpyAtoH_v2", "_ptds", direction="DtoH", **plain),
        *_each(
            210, "cuMemcpyAtoA_v2", "_ptds", op="memcpy", flags=_OP, bytes=(5,), direction="DtoD"
        ),
        *_each(212, "cuMemcpyHtoAAsync_v2", "_ptsz", direction="HtoD", stream=5, **plain),
        *_each(214, "cuMemcpyAtoHAsync_v2", "_ptsz", direction="DtoH", stream=5, **plain),
    )


def _sets() -> tuple[Function, ...]:
    plain: dict[str, Any] = {"op": "memset", "flags": _OP, "address": 1, "bytes": (3,)}
    flat: dict[str, Any] = {**plain, "bytes": (4, 5)}
    return (
        *_each(60, "cuMemsetD8_v2", "_ptds", **plain),
        *_each(62, "cuMemsetD16_v2", "_ptds", bytes_shift=1, **plain),
        *_each(64, "cuMemsetD32_v2", "_ptds", bytes_shift=2, **plain),
        *_each(66, "cuMemsetD8Async", "_ptsz", stream=4, **plain),
        *_each(68, "cuMemsetD16Async", "_ptsz", bytes_shift=1, stream=4, **plain),
        *_each(70, "cuMemsetD32Async", "_ptsz", bytes_shift=2, stream=4, **plain),
        *_each(216, "cuMemsetD2D8_v2", "_ptds", **flat),
        *_each(218, "cuMemsetD2D16_v2", "_ptds", bytes_shift=1, **flat),
        *_each(220, "cuMemsetD2D32_v2", "_ptds", bytes_shift=2, **flat),
        *_each(222, "cuMemsetD2D8Async", "_ptsz", stream=6, **flat),
        *_each(224, "cuMemsetD2D16Async", "_ptsz", bytes_shift=1, stream=6, **flat),
        *_each(226, "cuMemsetD2D32Async", "_ptsz", bytes_shift=2, stream=6, **flat),
    )


def _prefetches() -> tuple[Function, ...]:
    plain: dict[str, Any] = {"op": "prefetch", "flags": _OP, "address": 1, "bytes": (2,)}
    batch: dict[str, Any] = {
        "op": "prefetch", "flags": _OP | Flag.BATCH, "bytes": (2, 3), "stack": True, "stream": 8,
    }  # fmt: skip
    discard: dict[str, Any] = {"op": "discard", "flags": _OP | Flag.BATCH, "bytes": (2, 3)}
    return (
        *_each(76, "cuMemPrefetchAsync_v2", "_ptsz", stream=5, **plain),
        *_each(78, "cuMemPrefetchAsync", "_ptsz", stream=4, **plain),
        *_each(80, "cuMemPrefetchBatchAsync", "_ptsz", **batch),
        *_each(806, "cuMemDiscardBatchAsync", "_ptsz", stream=5, **discard),
        *_each(808, "cuMemDiscardAndPrefetchBatchAsync", "_ptsz", **batch),
        *_each(810, "cuMemBatchDecompressAsync", "_ptsz", op="decompress", flags=_OP, stream=5),
    )


def _memory() -> tuple[Function, ...]:
    alloc: dict[str, Any] = {"op": "alloc", "flags": _OP, "out": 1, "bytes": (2,), "step": "ALLOC"}
    free: dict[str, Any] = {"op": "free", "flags": _OP, "address": 1, "step": "FREE"}
    host: dict[str, Any] = {"op": "alloc", "flags": _OP | Flag.HOST, "bytes": (2,), "step": "ALLOC"}
    unhost: dict[str, Any] = {**free, "flags": _OP | Flag.HOST}
    return (
        *_each(90, "cuMemAlloc_v2", **alloc),
        *_each(91, "cuMemAllocManaged", **alloc),
        *_each(92, "cuMemAllocAsync", "_ptsz", stream=3, **alloc),
        *_each(94, "cuMemAllocHost_v2", out=1, **host),
        *_each(95, "cuMemHostAlloc", out=1, **host),
        *_each(96, "cuMemHostRegister_v2", address=1, **host),
        *_each(97, "cuMemHostRegister", address=1, **host),
        *_each(98, "cuMemAllocPitch_v2", out_bytes=2, **{**alloc, "bytes": (4,)}),
        *_each(99, "cuMemAllocFromPoolAsync", "_ptsz", stream=4, **alloc),
        *_each(110, "cuMemFree_v2", **free),
        *_each(111, "cuMemFreeAsync", "_ptsz", stream=2, **free),
        *_each(113, "cuMemFreeHost", **unhost),
        *_each(114, "cuMemHostUnregister", **unhost),
    )


def _arrays() -> tuple[Function, ...]:
    """What they take depends on a format and on the device: no bytes."""
    alloc: dict[str, Any] = {"op": "alloc", "flags": _OP, "out": 1}
    free: dict[str, Any] = {"op": "free", "flags": _OP, "address": 1}
    return (
        *_each(812, "cuArrayCreate_v2", **alloc),
        *_each(813, "cuArray3DCreate_v2", **alloc),
        *_each(814, "cuMipmappedArrayCreate", **alloc),
        *_each(815, "cuArrayDestroy", **free),
        *_each(816, "cuMipmappedArrayDestroy", **free),
    )


def _physical_memory() -> tuple[Function, ...]:
    return (
        *_each(101, "cuMemCreate", op="alloc", flags=_OP, out=1, bytes=(2,), step="CREATE"),
        *_each(102, "cuMemRetainAllocationHandle", op="map", flags=_ROW, out=1, step="RETAIN"),
        *_each(115, "cuMemRelease", op="free", flags=_OP, address=1, step="RELEASE"),
        *_each(
            116, "cuMemMap", op="map", flags=_ROW, address=1, bytes=(2,), other=4, step="MAP"
        ),
        *_each(117, "cuMemUnmap", op="map", flags=_ROW, address=1, bytes=(2,), step="UNMAP"),
        *_each(118, "cuMemPoolCreate", op="pool", flags=_ROW, out=1),
        *_each(119, "cuMemPoolDestroy", op="pool", flags=_ROW, address=1),
        *_each(120, "cuMemPoolTrimTo", op="pool", flags=_ROW, address=1, bytes=(2,)),
        *_each(
            818, "cuMemMapArrayAsync", "_ptsz", op="map", flags=_ROW | Flag.QUEUES, stream=3
        ),
        *_each(820, "cuDeviceGraphMemTrim", op="pool", flags=_ROW),
    )  # fmt: skip


def _waits() -> tuple[Function, ...]:
    sync: dict[str, Any] = {"op": "sync", "flags": _OP}
    return (
        *_each(130, "cuStreamSynchronize", "_ptsz", stream=1, **sync),
        *_each(132, "cuCtxSynchronize", **sync),
        *_each(133, "cuCtxSynchronize_v2", address=1, **sync),
        *_each(134, "cuEventSynchronize", op="sync", flags=_OP | Flag.EVENT, address=1),
        *_each(135, "cuStreamQuery", "_ptsz", op="query", flags=Flag.READY, stream=1),
        *_each(817, "cuFlushGPUDirectRDMAWrites", **sync),
        *_each(137, "cuEventQuery", op="query", flags=Flag.READY | Flag.EVENT, address=1),
    )


def _events() -> tuple[Function, ...]:
    event: dict[str, Any] = {"op": "event", "flags": _ROW}
    record: dict[str, Any] = {**event, "address": 1, "stream": 2, "step": "EVENT_RECORD"}
    destroy: dict[str, Any] = {**event, "address": 1, "step": "EVENT_DESTROY"}
    elapsed: dict[str, Any] = {
        **event, "out": 1, "other": 2, "address": 3, "step": "EVENT_ELAPSED",
    }  # fmt: skip
    wait: dict[str, Any] = {
        "op": "event", "flags": _ROW | _FOREIGN | Flag.QUEUES, "stream": 1, "address": 2,
        "step": "EVENT_WAIT",
    }  # fmt: skip
    # On all streams of a context: the operation before the event is unknown.
    everywhere: dict[str, Any] = {
        "op": "event", "flags": _ROW | Flag.QUEUES | Flag.SEVERAL, "address": 2,
    }  # fmt: skip
    awaited: dict[str, Any] = {**everywhere, "flags": everywhere["flags"] | _FOREIGN}
    return (
        *_each(160, "cuEventCreate", out=1, other=2, step="EVENT_CREATE", **event),
        *_each(161, "cuEventDestroy_v2", **destroy),
        *_each(188, "cuEventDestroy", **destroy),
        *_each(162, "cuEventRecord", "_ptsz", **record),
        *_each(164, "cuEventRecordWithFlags", "_ptsz", **record),
        *_each(166, "cuStreamWaitEvent", "_ptsz", **wait),
        *_each(168, "cuEventElapsedTime", **elapsed),
        *_each(169, "cuEventElapsedTime_v2", **elapsed),
        *_each(821, "cuCtxRecordEvent", step="EVENT_GRAPH", other=2, **everywhere),
        *_each(822, "cuGreenCtxRecordEvent", step="EVENT_GRAPH", other=2, **everywhere),
        *_each(823, "cuCtxWaitEvent", **awaited),
        *_each(824, "cuGreenCtxWaitEvent", **awaited),
    )


def _streams() -> tuple[Function, ...]:
    stream: dict[str, Any] = {"op": "stream", "flags": _ROW}
    # Another stream may get the handle: what was queued on this one has nothing to do with it.
    gone: dict[str, Any] = {"op": "stream", "flags": _ROW | Flag.QUEUES, "stream": 1}
    # What makes a stream wait is no operation, and part of no operation's time.
    waits: dict[str, Any] = {**gone, "flags": gone["flags"] | _FOREIGN}
    third: dict[str, Any] = {**waits, "stream": 3}
    fourth: dict[str, Any] = {**waits, "stream": 4}
    # With its flags: what it waits for, and what waits for it.
    made: dict[str, Any] = {**stream, "out": 1, "fact": "STREAM"}
    return (
        *_each(170, "cuStreamCreate", other=2, **made),
        *_each(171, "cuStreamCreateWithPriority", other=2, **made),
        *_each(172, "cuStreamDestroy_v2", **gone),
        *_each(189, "cuStreamDestroy", **gone),
        *_each(173, "cuGreenCtxStreamCreate", other=3, **made),
        *_each(610, "cuStreamWaitValue32", "_ptsz", **waits),
        *_each(612, "cuStreamWaitValue32_v2", "_ptsz", **waits),
        *_each(614, "cuStreamWaitValue64", "_ptsz", **waits),
        *_each(616, "cuStreamWaitValue64_v2", "_ptsz", **waits),
        *_each(618, "cuStreamWriteValue32", "_ptsz", **waits),
        *_each(620, "cuStreamWriteValue32_v2", "_ptsz", **waits),
        *_each(622, "cuStreamWriteValue64", "_ptsz", **waits),
        *_each(624, "cuStreamWriteValue64_v2", "_ptsz", **waits),
        *_each(626, "cuStreamBatchMemOp", "_ptsz", **waits),
        *_each(628, "cuStreamBatchMemOp_v2", "_ptsz", **waits),
        *_each(630, "cuStreamAttachMemAsync", "_ptsz", **waits),
        *_each(632, "cuStreamAddCallback", "_ptsz", **waits),
        *_each(634, "cuWaitExternalSemaphoresAsync", "_ptsz", **fourth),
        *_each(636, "cuSignalExternalSemaphoresAsync", "_ptsz", **fourth),
        *_each(638, "cuGraphicsMapResources", "_ptsz", **third),
        *_each(640, "cuGraphicsUnmapResources", "_ptsz", **third),
    )


def _contexts() -> tuple[Function, ...]:
    made: dict[str, Any] = {
        "op": "context", "flags": _ROW, "out": 1, "step": "CONTEXT_CREATE", "fact": "CONTEXT",
    }  # fmt: skip
    row: dict[str, Any] = {"op": "context", "flags": _ROW}
    quiet: dict[str, Any] = {"op": "context", "address": 1}
    return (
        *_each(150, "cuInit", op="init", flags=_ROW, fact="MEMORY"),
        *_each(151, "cuCtxCreate_v2", other=3, **made),
        *_each(152, "cuCtxCreate_v3", other=5, **made),
        *_each(153, "cuCtxCreate_v4", other=4, **made),
        *_each(154, "cuCtxSetCurrent", step="CONTEXT_SET", **quiet),
        *_each(155, "cuCtxPushCurrent_v2", step="CONTEXT_PUSH", **quiet),
        *_each(158, "cuCtxPopCurrent_v2", op="context", step="CONTEXT_POP"),
        *_each(
            156, "cuDevicePrimaryCtxRetain", out=1, other=2, step="PRIMARY_RETAIN", fact="CONTEXT",
            **row,
        ),
        *_each(159, "cuDevicePrimaryCtxRelease_v2", other=1, step="PRIMARY_RELEASE", **row),
        *_each(174, "cuDevicePrimaryCtxRelease", other=1, step="PRIMARY_RELEASE", **row),
        *_each(175, "cuDevicePrimaryCtxReset_v2", other=1, step="PRIMARY_RESET", **row),
        *_each(176, "cuDevicePrimaryCtxReset", other=1, step="PRIMARY_RESET", **row),
        *_each(825, "cuGreenCtxCreate", out=1, other=3, fact="CONTEXT", **row),
        *_each(826, "cuGreenCtxDestroy", address=1, **row),
        *_each(GREEN, "cuCtxFromGreenCtx", out=1, other=2, fact="CONTEXT", **row),
        *_each(157, "cuCtxDestroy_v2", address=1, step="CONTEXT_DESTROY", **row),
        *_each(190, "cuCtxDestroy", address=1, step="CONTEXT_DESTROY", **row),
    )  # fmt: skip


def _modules() -> tuple[Function, ...]:
    load: dict[str, Any] = {"op": "module", "flags": _ROW, "out": 1}
    gone: dict[str, Any] = {"op": "module", "flags": _ROW, "handle": 1, "fact": "FORGET"}
    return (
        *_each(180, "cuModuleLoad", **load),
        *_each(181, "cuModuleLoadData", **load),
        *_each(182, "cuModuleLoadDataEx", **load),
        *_each(183, "cuModuleLoadFatBinary", **load),
        *_each(184, "cuLibraryLoadData", **load),
        *_each(185, "cuLibraryLoadFromFile", **load),
        *_each(186, "cuModuleUnload", **gone),
        *_each(187, "cuLibraryUnload", **gone),
    )


FUNCTIONS: Final = (
    *_launches(),
    *_copies(),
    *_shaped_copies(),
    *_array_copies(),
    *_sets(),
    *_prefetches(),
    *_memory(),
    *_arrays(),
    *_physical_memory(),
    *_waits(),
    *_events(),
    *_streams(),
    *_contexts(),
    *_modules(),
)
