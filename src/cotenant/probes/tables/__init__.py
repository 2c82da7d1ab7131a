"""Every traced library function, as data: one row per function.

A row states a fact: *this symbol of this library is worth an event, and here are its
arguments*. Attaching is ``attach.py``'s job; the event itself is declared in bpf/common/event.h.
"""

from typing import Final

from cotenant.probes.function import CallFamily, Function, Library
from cotenant.probes.tables import driver, graphs, names, nccl, runtime, sharing

FUNCTIONS: Final[tuple[Function, ...]] = (
    *driver.FUNCTIONS,
    *graphs.FUNCTIONS,
    *sharing.FUNCTIONS,
    *runtime.FUNCTIONS,
    *nccl.FUNCTIONS,
    *names.FUNCTIONS,
)

BY_ID: Final = {function.id: function for function in FUNCTIONS}

# Calls of the CUDA runtime, which contain the driver's: ``--layers auto`` probes them for a while.
RUNTIME_CALLS: Final = frozenset(
    f.id for f in FUNCTIONS if f.library is Library.CUDART and f.family is CallFamily.CUDA
)

# The function of each kind without which most of its work goes unseen.
MARKERS: Final = {
    Library.CUDA: "cuLaunchKernel",
    Library.CUDART: "cudaLaunchKernel",
    Library.NCCL: "ncclAllReduce",
}

# A file that defines one of these is a library of that kind, whatever it is called. Who links NCCL
# statically has only those of its functions that are called.
SIGNS: Final[dict[Library, tuple[str, ...]]] = {
    **{kind: (symbol,) for kind, symbol in MARKERS.items()},
    Library.NCCL: (
        "ncclAllReduce", "ncclReduce", "ncclBroadcast", "ncclBcast", "ncclAllGather",
        "ncclReduceScatter", "ncclSend", "ncclRecv",
    ),
}  # fmt: skip
