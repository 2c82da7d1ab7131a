"""A probed function as data: which it is, and where its arguments are.

A *slot* says where a value lies when the function is entered: 1-6 a register argument, 7-12 an
argument on the stack, 13-24 a word of the struct that ``struct`` points at. 0 is nowhere.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np

from cotenant.schema.constants import DIRECTION_CONSTANT, DIRECTION_SLOT
from cotenant.schema.constants import SLOT_STRUCT as STRUCT
from cotenant.schema.constants import CallFlags as Flag
from cotenant.schema.events import ENUMS
from cotenant.schema.layouts import CALL_SPEC

__all__ = ["STRUCT", "CallFamily", "Flag", "Function", "Library", "encode"]

# With this begins why a function was refused for which only single-stepping would do.
WOULD_BE_STEPPED: Final = "would be single-stepped"
# Operations of the driver that are queued on a stream, the default one if they name none.
_QUEUED: Final = frozenset(
    {"launch", "graph_launch", "memcpy", "memset", "prefetch", "discard", "decompress", "host"}
)
# Those that are if they name one.
_QUEUED_IF_NAMED: Final = frozenset({"alloc", "free"})


class Library(StrEnum):
    """Where a function lives, by what it is and not by its file's name."""

    CUDA = "cuda"
    CUDART = "cudart"
    NCCL = "nccl"


class CallFamily(StrEnum):
    """Which BPF programs serve a function; also the stem of the table it fills."""

    CUDA = "cuda"
    NCCL = "nccl"
    NAMES = "names"


@dataclass(frozen=True, slots=True)
class Function:
    """A library function, traced from entry to return."""

    id: int  # Stored in every file ever written: append only, never reuse.
    library: Library
    symbol: str
    op: str = ""
    family: CallFamily = CallFamily.CUDA
    flags: Flag = Flag(0)
    shape: str = "NONE"
    stack: bool = False  # Whether any argument is read from the stack.
    struct: int = 0  # Slot of a pointer to a struct.
    struct_offset: int = 0
    struct_words: int = 0
    out: int = 0  # Slot of a pointer that the call writes through.
    handle: int = 0
    stream: int = 0
    address: int = 0
    bytes: tuple[int, ...] = ()  # Slots that are multiplied.
    bytes_shift: int = 0
    direction: str = ""
    direction_slot: int = 0
    datatype: int = 0
    reduce_op: int = 0
    root: int = 0
    peer: int = 0
    communicator: int = 0
    fact: str = ""
    text: int = 0
    text_out: bool = False
    other: int = 0
    rank: int = 0
    nranks: int = 0
    config: int = 0
    step: str = "NONE"  # What it changes when it succeeds, as ``enum call_step``.
    out_bytes: int = 0  # Slot of a pointer to a size, multiplied with ``bytes`` at return.
    alternate: int = 0  # Slot used where ``other`` is 0.
    guard: int = 0
    source_type: int = 0  # Offsets of the two CUmemorytype in the struct.
    target_type: int = 0
    graph: str = ""  # What it means to a graph; for agent/recorder/processes/graphs.py.


def _number(enum: str, text: str) -> int:
    for value, name in ENUMS[enum].items():
        if name == text:
            return value
    raise KeyError(f"{enum} has no {text}")


def _all_flags(function: Function) -> Flag:
    flags = function.flags
    if function.library is Library.CUDART:
        flags |= Flag.CALLER
    if function.symbol.endswith(("_ptsz", "_ptds")):
        flags |= Flag.PER_THREAD
    if _queues(function):
        flags |= Flag.QUEUES
    return flags


def _queues(function: Function) -> bool:
    if function.library is not Library.CUDA or not function.flags & Flag.OPERATION:
        return False
    return function.op in _QUEUED or (function.op in _QUEUED_IF_NAMED and function.stream > 0)


def encode(function: Function) -> bytes:
    """The function as ``struct call_spec``, for its BPF program."""
    spec = np.zeros((), CALL_SPEC)
    spec["flags"] = int(_all_flags(function))
    spec["step"] = _number("call_step", function.step)
    if function.op:
        spec["op"] = _number(f"{function.family}_op", function.op)
    spec["shape"] = _number("call_shape", function.shape)
    spec["stack"] = function.stack
    spec["in"] = function.struct
    spec["in_offset"] = function.struct_offset
    spec["in_words"] = function.struct_words
    if function.direction_slot:
        spec["direction"] = DIRECTION_SLOT + function.direction_slot
    elif function.direction:
        spec["direction"] = DIRECTION_CONSTANT + _number("cuda_direction", function.direction)
    for index, slot in enumerate(function.bytes):
        spec["bytes"][index] = slot
    if function.fact:
        spec["fact"] = _number("fact_kind", function.fact)
    for field in (
        "out", "handle", "stream", "address", "bytes_shift", "datatype", "reduce_op", "root",
        "peer", "communicator", "text", "text_out", "other", "rank", "nranks", "config",
        "out_bytes", "alternate", "guard", "source_type", "target_type",
    ):  # fmt: skip
        spec[field] = getattr(function, field)
    return spec.tobytes()
