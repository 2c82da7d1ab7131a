"""Functions that only jump on by a slot."""

import subprocess
from pathlib import Path

import pytest

from cotenant.agent import doctor
from cotenant.probes.elf import Elf
from cotenant.probes.entries import behind
from cotenant.probes.function import Library
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


# As Implib.so makes them for JAX and TensorFlow; the symbols have no size.
TRAMPOLINE = """
.p2align 4
.globl {name}
.type {name},@function
{name}:
.cfi_startproc
cmpq $0,table+{offset}(%rip)
je 2f
1: jmp *table+{offset}(%rip)
2: pushq ${number}
call resolve
addq $8,%rsp
jmp 1b
.cfi_endproc
"""


def build_trampolines(place: Path, names: list[str], more: str = "") -> Path:
    """A library of trampolines that ends the process if one is called."""
    stubs = [TRAMPOLINE.format(name=n, number=i, offset=8 * i) for i, n in enumerate(names)]
    source = place / "trampolines.s"
    source.write_text(
        f".data\ntable: .zero {8 * len(names)}\n.text\nresolve: ud2\n{''.join(stubs)}{more}"
        '.section .note.GNU-stack,"",@progbits\n'
    )
    library = place / "libcuda_stubs.so"
    subprocess.run(["gcc", "-shared", "-o", library, source], check=True)
    return library


def names_of(library: Library) -> list[str]:
    return [f.symbol for f in FUNCTIONS if f.library is library]


def test_a_file_of_trampolines_is_no_library_to_probe(tmp_path: Path) -> None:
    names = [symbol for kind in Library for symbol in names_of(kind)]
    with build_trampolines(tmp_path, names).open("rb") as file:
        assert plan(file.fileno(), FUNCTIONS) is None


def test_beside_trampolines_what_is_a_function_is_probed(tmp_path: Path) -> None:
    """A file may have trampolines for the driver, and the runtime itself."""
    launch = ".globl cudaLaunchKernel\n.type cudaLaunchKernel,@function\ncudaLaunchKernel:\n"
    launch += "push %rbp\npop %rbp\nret\n.size cudaLaunchKernel,.-cudaLaunchKernel\n"
    with build_trampolines(tmp_path, names_of(Library.CUDA), launch).open("rb") as file:
        found = plan(file.fileno(), FUNCTIONS)
    assert found is not None
    assert (found.kinds, found.refused, found.blind) == (("cudart",), {}, False)
    assert [p.function.symbol for p in found.placed] == ["cudaLaunchKernel"]


def test_functions_without_a_size_are_no_trampolines_by_that(tmp_path: Path) -> None:
    code = ".globl cuLaunchKernel\n.type cuLaunchKernel,@function\ncuLaunchKernel:\n"
    code += "xor %eax,%eax\npush %rbp\npop %rbp\nret\n"
    with build_trampolines(tmp_path, ["cuMemcpy"], code).open("rb") as file:
        found = plan(file.fileno(), FUNCTIONS)
    assert found is not None
    assert found.refused["cuLaunchKernel"] == "has no known end"


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
