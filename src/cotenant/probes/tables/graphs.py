"""CUDA graphs, from capture to launch; the recorder's ``processes.graphs`` reads ``graph``."""

from typing import Any, Final

from cotenant.probes.function import STRUCT, Flag, Function, Library

_DRIVER: Final[dict[str, Any]] = {"op": "graph", "flags": Flag.ROW, "fact": "GRAPH"}
_RUNTIME: Final[dict[str, Any]] = {"op": "graph", "flags": Flag.ROW}
# CUDA_KERNEL_NODE_PARAMS: the function first; since its second version also a CUkernel.
_PARAMS: Final[dict[str, Any]] = {"struct_words": 1, "other": STRUCT}
_PARAMS_V2: Final[dict[str, Any]] = {"struct_words": 8, "other": STRUCT, "alternate": STRUCT + 7}
# CUgraphNodeParams: the node's type (0 is a kernel), then the above; or an event to record.
_ANY: Final[dict[str, Any]] = {
    "struct_words": 10, "guard": STRUCT, "other": STRUCT + 2, "alternate": STRUCT + 9,
    "step": "EVENT_GRAPH",
}  # fmt: skip


def _one(id: int, symbol: str, graph: str, **facts: Any) -> Function:
    return Function(id, Library.CUDA, symbol, graph=graph, **{**_DRIVER, **facts})


def _runtime(id: int, *symbols: str, **facts: Any) -> tuple[Function, ...]:
    return tuple(
        Function(id + index, Library.CUDART, symbol, **{**_RUNTIME, **facts})
        for index, symbol in enumerate(symbols)
    )


def _captures() -> tuple[Function, ...]:
    begin: dict[str, Any] = {"stream": 1, "step": "CAPTURE_BEGIN"}
    end: dict[str, Any] = {"stream": 1, "out": 2, "step": "CAPTURE_END"}
    into: dict[str, Any] = {**begin, "handle": 2}
    no_graph: dict[str, Any] = {"stream": 1, "step": "CAPTURE_END"}
    return (
        _one(230, "cuStreamBeginCapture_v2", "begin", **begin),
        _one(231, "cuStreamBeginCapture_v2_ptsz", "begin", **begin),
        _one(232, "cuStreamBeginCaptureToGraph", "begin", **into),
        _one(233, "cuStreamBeginCaptureToGraph_ptsz", "begin", **into),
        _one(234, "cuStreamEndCapture", "end", **end),
        _one(235, "cuStreamEndCapture_ptsz", "end", **end),
        _one(236, "cuStreamBeginCapture", "begin", **begin),
        _one(237, "cuStreamBeginCapture_ptsz", "begin", **begin),
        # What the graph held before is replaced, as if its end handed out a new one.
        _one(238, "cuStreamBeginRecaptureToGraph", "begin", **begin),
        _one(239, "cuStreamBeginRecaptureToGraph_ptsz", "begin", **begin),
        # Into a command list of a graphics API: no graph comes of it.
        _one(276, "cuStreamBeginCaptureToCig", "begin", **begin),
        _one(277, "cuStreamBeginCaptureToCig_ptsz", "begin", **begin),
        _one(278, "cuStreamEndCaptureToCig", "end", **no_graph),
        _one(279, "cuStreamEndCaptureToCig_ptsz", "end", **no_graph),
    )


def _building() -> tuple[Function, ...]:
    node: dict[str, Any] = {"out": 1, "handle": 2}
    return (
        _one(240, "cuGraphCreate", "create", out=1),
        _one(241, "cuGraphClone", "clone", out=1, handle=2),
        _one(242, "cuGraphAddKernelNode", "kernel", struct=5, **node, **_PARAMS),
        _one(243, "cuGraphAddKernelNode_v2", "kernel", struct=5, **node, **_PARAMS_V2),
        _one(244, "cuGraphAddNode", "kernel", struct=5, **node, **_ANY),
        _one(245, "cuGraphAddNode_v2", "kernel", struct=6, **node, **_ANY),
        _one(280, "cuGraphAddNode_v3", "kernel", struct=6, **node, **_ANY),
        _one(246, "cuGraphAddChildGraphNode", "child", other=5, **node),
        _one(247, "cuGraphKernelNodeGetParams", "node", handle=1, out=2),
        _one(248, "cuGraphKernelNodeGetParams_v2", "node", handle=1, out=2),
        _one(249, "cuGraphKernelNodeSetParams", "set", handle=1, struct=2, **_PARAMS),
        _one(250, "cuGraphKernelNodeSetParams_v2", "set", handle=1, struct=2, **_PARAMS_V2),
        _one(251, "cuGraphNodeSetParams", "set", handle=1, struct=2, **_ANY),
        _one(281, "cuGraphNodeSetParams_v2", "set", handle=1, struct=2, **_ANY),
        _one(252, "cuGraphDestroyNode", "drop", handle=1),
        _one(253, "cuGraphDestroy", "destroy", handle=1),
    )


def _running() -> tuple[Function, ...]:
    made: dict[str, Any] = {"out": 1, "handle": 2}
    node: dict[str, Any] = {"handle": 1, "address": 2, "struct": 3}
    upload: dict[str, Any] = {
        "handle": 1, "stream": 2, "fact": "", "flags": Flag.ROW | Flag.QUEUES,
    }  # fmt: skip
    return (
        _one(260, "cuGraphInstantiate", "instantiate", **made),
        _one(261, "cuGraphInstantiate_v2", "instantiate", **made),
        _one(262, "cuGraphInstantiateWithFlags", "instantiate", **made),
        _one(263, "cuGraphInstantiateWithParams", "instantiate", **made),
        _one(264, "cuGraphInstantiateWithParams_ptsz", "instantiate", **made),
        _one(265, "cuGraphExecUpdate", "update", handle=1, other=2),
        _one(266, "cuGraphExecUpdate_v2", "update", handle=1, other=2),
        _one(267, "cuGraphExecKernelNodeSetParams", "exec_set", **node, **_PARAMS),
        _one(268, "cuGraphExecKernelNodeSetParams_v2", "exec_set", **node, **_PARAMS_V2),
        _one(269, "cuGraphExecNodeSetParams", "exec_set", **node, **_ANY),
        _one(270, "cuGraphExecDestroy", "exec_destroy", handle=1),
        _one(271, "cuGraphUpload", "upload", **upload),
        _one(272, "cuGraphUpload_ptsz", "upload", **upload),
    )


def _recording() -> tuple[Function, ...]:
    record: dict[str, Any] = {"fact": "", "step": "EVENT_GRAPH"}
    return (
        _one(273, "cuGraphAddEventRecordNode", "event", other=5, **record),
        _one(274, "cuGraphEventRecordNodeSetEvent", "event", other=2, **record),
        _one(275, "cuGraphExecEventRecordNodeSetEvent", "event", other=3, **record),
    )


def _of_runtime() -> tuple[Function, ...]:
    return (
        *_runtime(460, "cudaStreamBeginCapture", "cudaStreamBeginCapture_ptsz", stream=1),
        *_runtime(
            462, "cudaStreamBeginCaptureToGraph", "cudaStreamBeginCaptureToGraph_ptsz", stream=1
        ),
        *_runtime(
            483, "cudaStreamBeginRecaptureToGraph", "cudaStreamBeginRecaptureToGraph_ptsz", stream=1
        ),
        *_runtime(464, "cudaStreamEndCapture", "cudaStreamEndCapture_ptsz", stream=1, out=2),
        *_runtime(466, "cudaGraphCreate", "cudaGraphClone", out=1),
        *_runtime(468, "cudaGraphAddKernelNode", "cudaGraphAddNode", "cudaGraphAddNode_v2", out=1),
        *_runtime(471, "cudaGraphInstantiate", "cudaGraphInstantiateWithFlags", out=1, handle=2),
        *_runtime(
            473, "cudaGraphInstantiateWithParams", "cudaGraphInstantiateWithParams_ptsz",
            out=1, handle=2,
        ),
        *_runtime(475, "cudaGraphExecUpdate", "cudaGraphExecKernelNodeSetParams", handle=1),
        *_runtime(477, "cudaGraphExecNodeSetParams", "cudaGraphExecDestroy", handle=1),
        *_runtime(479, "cudaGraphDestroy", "cudaGraphKernelNodeSetParams", handle=1),
        *_runtime(481, "cudaGraphUpload", "cudaGraphUpload_ptsz", handle=1, stream=2),
    )  # fmt: skip


FUNCTIONS: Final = (*_captures(), *_building(), *_running(), *_recording(), *_of_runtime())
