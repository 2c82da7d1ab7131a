"""Functions that only jump on by a slot."""

import subprocess
from pathlib import Path

import pytest

from cotenant.agent import doctor
from cotenant.probes.elf import Elf
from cotenant.probes.entries import behind
from cotenant.probes.plan import plan
from cotenant.probes.tables import FUNCTIONS
from cotenant.probes.ucx import EXPECTED

ENTRY = "cmpl $0x321cba00,state(%rip); je 1f; jmp *{slot}(%rip); 1: mov $4,%eax; ret"
BODIES = """
.data
state: .long 0
.align 8
one: .quad body
two: .quad second
again: .quad second
odd: .quad middle
third: .quad stored
.text
.type body,@function
body: push %rbp; mov %rsp,%rbp; pop %rbp; ret
.size body,.-body
.type second,@function
second: push %rbp; pop %rbp; ret
.size second,.-second
.type stored,@function
stored: push %rbx
middle: push %rbp; pop %rbp; pop %rbx; ret
.size stored,.-stored
"""


def build(place: Path, **functions: str) -> Path:
    texts = [
        f".p2align 4\n.globl {name}\n.type {name},@function\n"
        f"{name}: {code}\n.size {name},.-{name}\n"
        for name, code in {"cuLaunchKernel": "push %rbp; pop %rbp; ret", **functions}.items()
    ]
    source = place / "lib.s"
    source.write_text(BODIES + "".join(texts) + '.section .note.GNU-stack,"",@progbits\n')
    library = place / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-o", library, source], check=True)
    return library


FRAMED = (
    "push %rbp; mov %rsp,%rbp; push %r12; sub $8,%rsp; cmpl $0x321cba00,state(%rip); je 1f; "
    "call *{slot}(%rip); mov %eax,%r12d; mov %r12d,%eax; mov -8(%rbp),%r12; leave; ret; "
    "1: mov $4,%eax; mov -8(%rbp),%r12; leave; ret"
)
CHECKED = (
    "cmpl $0x321cba00,state(%rip); je 1f; push %rbp; mov %rsp,%rbp; sub $16,%rsp; "
    "call *{slot}(%rip); leave; ret; 1: mov $4,%eax; ret"
)


def exposed(library: Path) -> dict[str, bool]:
    """The functions that have a probe or are left to UCX, and whether they are."""
    with library.open("rb") as file:
        found = plan(file.fileno(), FUNCTIONS)
    assert found is not None
    probed = {p.function.symbol: False for p in found.placed}
    return probed | {name: True for name, why in found.refused.items() if why == EXPECTED}


@pytest.mark.parametrize("entry", [ENTRY, FRAMED, CHECKED])
def test_a_hooked_function_is_probed_behind_its_slot(entry: str, tmp_path: Path) -> None:
    library = build(tmp_path, cuMemFree_v2=entry.format(slot="one"))
    assert exposed(library) == {"cuLaunchKernel": False, "cuMemFree_v2": False}
    with library.open("rb") as file, Elf(file.fileno()) as elf:
        entry = elf.extents(["cuMemFree_v2"])["cuMemFree_v2"]
        inner = behind(elf, [entry])[entry]
        assert elf.bytes_at(*inner).startswith(b"\x55\x48\x89\xe5")


@pytest.mark.parametrize(
    "code",
    [
        ENTRY.format(slot="two"),  # Another slot holds it, too.
        ENTRY.format(slot="odd"),  # It is no function's start.
        "mov %rdi,%rsi; jmp *third(%rip)",  # Arguments are changed before.
        "push %rbp; jmp *third(%rip)",  # The stack is.
        "push %rbp; mov %rsp,%rbp; mov %rdi,%rsi; call *third(%rip); leave; ret",
        "push %rbp; mov %rsp,%rbp; mov %rdi,-8(%rsp); call *third(%rip); leave; ret",
        "push %rbp; mov %rsp,%rdi; call *third(%rip); pop %rbp; ret",
        "push %rbp; sub $16,%rsi; call *third(%rip); pop %rbp; ret",
        FRAMED.format(slot="two"),
        CHECKED.format(slot="odd"),
        "nop; jmp *%rax",
    ],
)
def test_where_it_is_not_sure_what_is_behind_it_is_not_probed_there(
    code: str, tmp_path: Path
) -> None:
    found = exposed(build(tmp_path, cuMemFree_v2=code))
    assert found.pop("cuMemFree_v2", True)
    assert found == {"cuLaunchKernel": False}


def test_a_slot_that_two_functions_jump_by_is_not_one_functions(tmp_path: Path) -> None:
    code = ENTRY.format(slot="one")
    library = build(tmp_path, cuMemFree_v2=code, cuMemcpy=code)
    assert exposed(library)["cuMemFree_v2"]


def test_a_neighbour_that_a_jump_would_reach_is_exposed_with_it(tmp_path: Path) -> None:
    short = "push %rbp; pop %rbp; ret"
    source = build(tmp_path, cuMemFree_v2=short, cuMemcpy=short).with_name("lib.s")
    source.write_text(source.read_text().replace(".p2align 4\n", ""))
    library = tmp_path / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-o", library, source], check=True)
    found = exposed(library)
    assert found["cuMemFree_v2"]
    assert found["cuMemcpy"]
    assert not found["cuLaunchKernel"]


def test_doctor_names_what_is_left_to_ucx(tmp_path: Path) -> None:
    library = build(tmp_path, cuMemFree_v2="push %rbp; pop %rbp; ret")
    with library.open("rb") as file:
        found = plan(file.fileno(), FUNCTIONS)
    assert found is not None
    check = doctor._library(str(library), found)
    assert check.found == f"{library}: 1 functions"
    assert check.more == (f"refused: cuMemFree_v2: {EXPECTED}",)
