"""A function as its BPF program reads it, against the C header that declares the struct."""

from pathlib import Path

import numpy as np
import pytest

from cotenant.probes.function import Flag, Function, Library, encode
from cotenant.probes.tables import FUNCTIONS
from cotenant.schema.layouts import CALL_SPEC
from tests.unit.probes.c_values import evaluate, header

HEADER = f'#include "{header("call.h")}"'


def test_the_layout_is_that_of_the_struct(tmp_path: Path) -> None:
    names = [name for name in CALL_SPEC.names or () if name != "reserved"]
    offsets = [f"offsetof(struct call_spec, {name})" for name in names]
    found = evaluate(tmp_path, HEADER, [*offsets, "sizeof(struct call_spec)"])
    assert CALL_SPEC.itemsize == found.pop("sizeof(struct call_spec)")
    assert [(CALL_SPEC.fields or {})[name][1] for name in names] == list(found.values())


def test_flags_are_those_of_the_header(tmp_path: Path) -> None:
    found = evaluate(tmp_path, HEADER, [f"CALL_{flag.name}" for flag in Flag])
    assert {f"CALL_{flag.name}": int(flag) for flag in Flag} == found


def test_every_function_has_an_entry_of_its_own_size_and_a_number_that_fits(
    tmp_path: Path,
) -> None:
    names = ("FUNCTIONS_MAX", "SLOT_END", "sizeof(struct call_spec)")
    most, slots, size = evaluate(tmp_path, HEADER, names).values()
    assert {len(encode(function)) for function in FUNCTIONS} == {size}
    assert max(function.id for function in FUNCTIONS) < most
    named = {"out", "handle", "stream", "address", "text", "other", "communicator"}
    assert all(0 <= getattr(f, name) < slots for f in FUNCTIONS for name in named)


def test_what_the_library_and_the_name_say_becomes_flags() -> None:
    def flags(**changes: object) -> int:
        values = {"id": 1, "library": Library.CUDA, "symbol": "cuX", **changes}
        return int(np.frombuffer(encode(Function(**values)), CALL_SPEC)["flags"][0])  # type: ignore[arg-type]

    assert flags() == 0
    assert flags(library=Library.CUDART) == Flag.CALLER
    assert flags(symbol="cuX_ptsz") == flags(symbol="cuX_ptds") == Flag.PER_THREAD
    queued = Flag.OPERATION | Flag.QUEUES
    assert flags(op="memcpy", flags=Flag.OPERATION) == queued
    assert flags(op="alloc", flags=Flag.OPERATION) == Flag.OPERATION
    assert flags(op="alloc", flags=Flag.OPERATION, stream=2) == queued


def test_a_word_that_no_enum_has_is_refused() -> None:
    with pytest.raises(KeyError, match="cuda_op has no lunch"):
        encode(Function(1, Library.CUDA, "cuX", op="lunch"))


def test_a_direction_is_a_constant_or_a_slot(tmp_path: Path) -> None:
    def direction(**changes: object) -> int:
        function = Function(1, Library.CUDA, "cuX", **changes)  # type: ignore[arg-type]
        return int(np.frombuffer(encode(function), CALL_SPEC)["direction"][0])

    assert direction() == 0
    assert direction(direction_slot=4) == 128 + 4
    found = evaluate(tmp_path, f'#include "{header("event.h")}"', ["CUDA_DIRECTION_DtoH"])
    assert direction(direction="DtoH") == 1 + found["CUDA_DIRECTION_DtoH"]
