"""Machine code of this system's own files, against binutils' disassembler."""

import re
import subprocess
from pathlib import Path

import pytest
from iced_x86 import Instruction

from cotenant.probes.code import (
    goes_anywhere,
    instructions,
    is_emulated,
    is_harmless,
    is_steppable,
    mnemonic,
    target,
)

LOOKED_AT = 1 << 15
_LINE = re.compile(r"^ +([0-9a-f]+):\t((?:[0-9a-f]{2} )+) *\t(?:(?:bnd|notrack) )?(\S+) *(.*)$")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The code of a program that everybody has."""
    copy = tmp_path_factory.mktemp("code") / "text"
    words = ["objcopy", "-O", "binary", "--only-section=.text", Path("/bin/bash").resolve(), copy]
    subprocess.run(words, check=True)
    return copy.read_bytes()[:LOOKED_AT]


def listing(place: Path, code: bytes) -> list[tuple[int, bytes, str, str]]:
    """Address, bytes, name and operands of each instruction, as objdump sees them."""
    (place / "code").write_bytes(code)
    done = subprocess.run(
        ["objdump", "-D", "-b", "binary", "-m", "i386:x86-64", "-w", place / "code"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = [match for line in done.stdout.splitlines() if (match := _LINE.match(line))]
    return [(int(m[1], 16), bytes.fromhex(m[2]), m[3], m[4]) for m in found]


def assembled(place: Path, code: str) -> tuple[Instruction, bytes]:
    """One instruction out of the system's assembler."""
    (place / "one.s").write_text(f"{code}\n")
    subprocess.run(["as", "--64", "-o", place / "one.o", place / "one.s"], check=True)
    words = ["objcopy", "-O", "binary", "--only-section=.text", place / "one.o", place / "one"]
    subprocess.run(words, check=True)
    raw = (place / "one").read_bytes()
    return next(instructions(raw)), raw


def test_instructions_begin_where_objdump_says(text: bytes, tmp_path: Path) -> None:
    ours = [(one.ip, one.len) for one in instructions(text)]
    theirs = [(at, len(raw)) for at, raw, _, _ in listing(tmp_path, text)]
    assert len(ours) > 5000
    # The last one may be cut.
    assert ours[:-1] == theirs[: len(ours) - 1]


def test_branches_go_where_objdump_says(text: bytes, tmp_path: Path) -> None:
    seen = {at: (name, operands) for at, _, name, operands in listing(tmp_path, text)}
    checked = 0
    for one in list(instructions(text))[:-1]:
        name, operands = seen[one.ip]
        direct = re.fullmatch(r"(?:j[a-z]+|call)q?", name) and re.fullmatch(r"0x(\w+)", operands)
        assert target(one) == (int(direct[1], 16) if direct else None)
        assert goes_anywhere(one) == (
            name.startswith("jmp") and "*" in operands and "(%rip)" not in operands
        )
        checked += bool(direct)
    assert checked > 500


def test_what_is_emulated_is_a_push_a_nop_or_a_jump(text: bytes, tmp_path: Path) -> None:
    seen = {at: name for at, _, name, _ in listing(tmp_path, text)}
    emulated = {
        seen[one.ip]
        for one in list(instructions(text))[:-1]
        if is_emulated(one, text[one.ip : one.ip + one.len])
    }
    assert {"push", "jmp", "je", "jne"} <= emulated
    assert all(re.fullmatch(r"push|nop|j[a-z]+", name) for name in emulated)


@pytest.mark.parametrize(
    ("code", "emulated"),
    [
        ("push %rbp", True), ("push %r12", True), ("nop", True), ("jmp .+100", True),
        ("jmp .+1000", True), ("je .+100", True), ("jne .+1000", True),
        ("push $1", False), ("pushw %ax", False), ("xchg %ax,%ax", False),
        ("nopl 8(%rax,%rax,1)", False), ("call .+100", False), ("ret", False),
        ("bnd jmp .+1000", False), ("loop .+20", False), ("jrcxz .+20", False),
        ("jmp *%rax", False),
        ("endbr64", False), ("push (%rax)", False),
    ],
)  # fmt: skip
def test_only_what_every_kernel_emulates_counts(code: str, emulated: bool, tmp_path: Path) -> None:
    assert is_emulated(*assembled(tmp_path, code)) == emulated


@pytest.mark.parametrize(
    ("code", "harmless", "steppable"),
    [
        ("mov $4,%eax", True, True), ("xor %r11d,%r11d", True, True),
        ("test %rdi,%rdi", True, True),
        ("cmpl $0,0x100(%rip)", True, False), ("lea 8(%rdi),%r10", True, True),
        ("endbr64", True, False), ("nop", True, False),
        # Arguments, the stack and memory are the caller's.
        ("mov %rdi,%rsi", False, True), ("sub $24,%rsp", False, True),
        ("mov %edx,-8(%rsp)", False, True), ("mov 8(%rsp),%rax", True, True),
        # So is the return address, until the kernel puts another in its place.
        ("mov (%rsp),%r11", False, False), ("xor (%rsp),%rax", False, False),
        ("mov 4(%rsp),%eax", False, False), ("mov -4(%rsp),%rax", False, False),
        ("mov -4(%rsp),%eax", True, True), ("mov (%rsp,%rax),%r11", False, False),
        ("mov %edx,(%rsp)", False, False),
        # Who has the stack's address can read it there.
        ("mov %rsp,%r10", False, True), ("mov %esp,%eax", False, True),
        ("lea 8(%rsp),%r10", False, True), ("lea (%rax,%rdi),%r10", True, True),
        ("add %rsp,%rax", False, True),
        ("and $-16,%rsp", False, False), ("mov %rsp,%rbp", False, True),
        ("mov %rbp,%rsp", False, False),
        ("mov %fs:40,%rax", True, False), ("lock addl $1,(%rdi)", False, False),
        ("push %rbx", False, False), ("call .+8", False, False), ("syscall", False, False),
        ("mov %ax,%ss", False, False), ("cpuid", False, False), ("imul %rdi,%rax", False, False),
    ],
)  # fmt: skip
def test_what_an_instruction_does_to_its_surroundings(
    code: str, harmless: bool, steppable: bool, tmp_path: Path
) -> None:
    one, _ = assembled(tmp_path, code)
    assert (is_harmless(one), is_steppable(one)) == (harmless, steppable)


def test_bytes_that_are_no_instruction_end_it() -> None:
    assert [mnemonic(one) for one in instructions(b"\x90\x55\x06\x90")] == ["nop", "push"]
    assert list(instructions(b"")) == []
