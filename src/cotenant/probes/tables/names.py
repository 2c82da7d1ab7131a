"""Calls from which names are learned: handles of kernels, and what they are called."""

from typing import Any, Final

from cotenant.probes.function import Family, Flag, Function, Library


def _name(id: int, library: Library, symbol: str, **facts: Any) -> Function:
    return Function(id, library, symbol, family=Family.NAMES, **facts)


_CUDA, _CUDART = Library.CUDA, Library.CUDART

FUNCTIONS: Final = (
    _name(700, _CUDA, "cuModuleGetFunction", fact="NAME", out=1, text=3, other=2),
    _name(701, _CUDA, "cuLibraryGetKernel", fact="NAME", out=1, text=3, other=2),
    _name(702, _CUDA, "cuKernelGetFunction", fact="ALIAS", out=1, other=2),
    _name(703, _CUDA, "cuFuncGetName", fact="NAME", handle=2, text=1, text_out=True),
    _name(704, _CUDA, "cuKernelGetName", fact="NAME", handle=2, text=1, text_out=True),
    _name(
        720, _CUDART, "__cudaRegisterFunction", fact="NAME", handle=2, text=3, flags=Flag.AT_ENTRY
    ),
    _name(721, _CUDART, "__cudaGetKernel", fact="ALIAS", out=1, other=2),
    _name(722, _CUDART, "cudaGetKernel", fact="ALIAS", out=1, other=2),
    _name(723, _CUDART, "cudaGetFuncBySymbol", fact="ALIAS", out=1, other=2),
    _name(724, _CUDART, "cudaFuncGetName", fact="NAME", handle=2, text=1, text_out=True),
)
