"""Kernel hooks, against the BPF objects as binutils read them and the C header's numbers."""

import re
import subprocess
from pathlib import Path

import pytest

from cotenant._native import OBJECTS
from cotenant.probes import mappers, memory_locks
from cotenant.probes.attach import Method
from cotenant.probes.function import CallFamily
from cotenant.probes.hooks import together
from cotenant.probes.kernel import HOOKS, counted, hooks_of
from cotenant.probes.programs import _OBJECTS, SUFFIXES, TASK_PROGRAMS, _of_family
from cotenant.probes.tables import FUNCTIONS
from cotenant.schema.families import KERNEL_FAMILIES
from tests.unit.probes.c_values import evaluate, header


def sections(stem: str) -> dict[str, str]:
    """Programs of an object, and the section of each: it says where the program belongs."""
    done = subprocess.run(
        ["readelf", "--syms", "--section-headers", "--wide", OBJECTS / f"{stem}.bpf.o"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = dict(re.findall(r"^ +\[ *(\d+)\] (\S+)", done.stdout, re.MULTILINE))
    functions = re.findall(r" FUNC +GLOBAL +\S+ +(\d+) (\w+)$", done.stdout, re.MULTILINE)
    return {name: names[at] for at, name in functions if names[at] != ".text"}


@pytest.mark.parametrize("family", KERNEL_FAMILIES)
def test_each_program_of_a_family_has_its_hook_and_each_hook_its_program(
    family: str,
) -> None:
    kinds = {"tick": "?perf_event", "start": "?iter/task_file", "stop": "?iter/task"}
    expected = {h.program: kinds.get(h.at, f"?tp_btf/{h.at}") for h in hooks_of(family)}
    assert sections(family) == expected


def test_a_program_that_stands_in_belongs_to_the_same_place() -> None:
    by_program = {hook.program: hook for hook in HOOKS}
    assert len(by_program) == len(HOOKS)
    for hook in HOOKS:
        if hook.instead_of:
            first = by_program[hook.instead_of]
            assert (first.family, first.at) == (hook.family, hook.at)
            assert HOOKS.index(first) < HOOKS.index(hook)


def test_programs_that_stand_in_are_not_loaded_together_with_the_first() -> None:
    assert together(["tcp"]) == {
        "tcp": {h.program: -1 for h in hooks_of("tcp") if not h.instead_of}
    }
    assert "tcp_retransmit_sent" not in together(KERNEL_FAMILIES)["tcp"]


@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("family", CallFamily)
def test_the_objects_of_a_method_have_its_programs(method: Method, family: CallFamily) -> None:
    for suffix in SUFFIXES[method]:
        assert sections(f"{family}{suffix}").keys() >= _of_family(method, family).keys()


@pytest.mark.parametrize("stem", ["task", *_OBJECTS])
def test_the_objects_of_every_recording_have_their_programs(stem: str) -> None:
    wanted = _OBJECTS.get(stem) or set(TASK_PROGRAMS) - set(_OBJECTS["flight"])
    assert sections(stem).keys() >= set(wanted)


def test_programs_that_a_kernel_may_refuse_are_not_loaded_with_those_that_all_have() -> None:
    assert sections(memory_locks.OBJECT).keys() == {memory_locks.PROGRAM, *mappers.PROGRAMS}
    assert memory_locks.OBJECT not in _OBJECTS


def test_a_total_of_the_kernel_is_counted_by_kind_and_operation(tmp_path: Path) -> None:
    preamble = "".join(f'#include "{header(name)}"\n' for name in ("event.h", "kernel_event.h"))
    preamble += f'#include "{header("total.h")}"'
    names = {
        "KERNEL_FUNCTION(EVENT_IO, IO_OP_read)": ("io", "read"),
        "KERNEL_FUNCTION(EVENT_NET, NET_OP_send)": ("net", "send"),
        "KERNEL_FUNCTION(EVENT_TCP, TCP_OP_retransmit)": ("tcp", "retransmit"),
        "KERNEL_FUNCTION(EVENT_HOST, HOST_OP_wakeup)": ("host", "wakeup"),
    }
    numbers = evaluate(tmp_path, preamble, names)
    assert {text: counted(number) for text, number in numbers.items()} == names


def test_a_total_of_a_call_is_counted_by_its_function() -> None:
    assert {counted(f.id) for f in FUNCTIONS} == {(str(f.family), f.symbol) for f in FUNCTIONS}
    assert counted(0x7FFF) is None
    assert counted(0xFFFF) is None
