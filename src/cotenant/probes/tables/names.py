"""Calls from which facts are learned: what handles are called, which device is which."""

from typing import Any, Final

from cotenant.probes.function import CallFamily, Flag, Function, Library


def _name(id: int, library: Library, symbol: str, **facts: Any) -> Function:
    return Function(id, library, symbol, family=CallFamily.NAMES, **facts)


_CUDA, _CUDART = Library.CUDA, Library.CUDART
_ASKED: Final[dict[str, Any]] = {"fact": "NAME", "handle": 2, "text": 1, "text_out": True}
_UUID: Final[dict[str, Any]] = {"fact": "DEVICE", "handle": 2, "text": 1, "flags": Flag.RAW}
_POINTER: Final[dict[str, Any]] = {"fact": "POINTER", "out": 2, "text": 1, "other": 3, "rank": 4}

FUNCTIONS: Final = (
    _name(700, _CUDA, "cuModuleGetFunction", fact="NAME", out=1, text=3, other=2),
    _name(701, _CUDA, "cuLibraryGetKernel", fact="NAME", out=1, text=3, other=2),
    _name(702, _CUDA, "cuKernelGetFunction", fact="ALIAS", out=1, other=2),
    _name(703, _CUDA, "cuFuncGetName", **_ASKED),
    _name(704, _CUDA, "cuKernelGetName", **_ASKED),
    _name(705, _CUDA, "cuDeviceGetUuid", **_UUID),
    _name(706, _CUDA, "cuDeviceGetUuid_v2", **_UUID),
    _name(707, _CUDA, "cuGetProcAddress", **_POINTER),
    _name(708, _CUDA, "cuGetProcAddress_v2", **_POINTER),
    _name(
        720, _CUDART, "__cudaRegisterFunction", fact="NAME", handle=2, text=3, flags=Flag.AT_ENTRY
    ),
    _name(721, _CUDART, "__cudaGetKernel", fact="ALIAS", out=1, other=2),
    _name(722, _CUDART, "cudaGetKernel", fact="ALIAS", out=1, other=2),
    _name(723, _CUDART, "cudaGetFuncBySymbol", fact="ALIAS", out=1, other=2),
    _name(724, _CUDART, "cudaFuncGetName", **_ASKED),
    _name(725, _CUDART, "cudaLibraryGetKernel", fact="NAME", out=1, text=3, other=2),
)
