"""Where in a function a probe may sit without harm.

A uprobe replaces the first byte of an instruction. The kernel emulates a few kinds; every other
is single-stepped out of line, which costs ten times as much and has corrupted processes. A probe
inside an instruction corrupts whoever runs it. So a site is either known to be good, or refused.
"""

from dataclasses import dataclass
from typing import Final

from cotenant.probes.elf import Elf

_ENDBR64: Final = b"\xf3\x0f\x1e\xfa"
_LOAD_RAX: Final = b"\x48\xb8"
_LOAD_RAX_BYTES: Final = 10
_NOPS: Final = (
    b"\x90",
    b"\x66\x90",
    b"\x0f\x1f\x00",
    b"\x0f\x1f\x40\x00",
    b"\x0f\x1f\x44\x00\x00",
    b"\x66\x0f\x1f\x44\x00\x00",
    b"\x0f\x1f\x80\x00\x00\x00\x00",
    b"\x0f\x1f\x84\x00\x00\x00\x00\x00",
)


@dataclass(frozen=True, slots=True)
class Site:
    """A place for a probe: an offset, or why there is none."""

    offset: int
    refused: str | None = None


def _emulated(code: bytes) -> bool:
    """Whether the kernel emulates the instruction that these bytes start with."""
    if not code:
        return False
    if 0x50 <= code[0] <= 0x57:  # push of a register
        return True
    if code[0] == 0x41 and len(code) > 1 and 0x50 <= code[1] <= 0x57:  # push of r8-r15
        return True
    return code.startswith(_NOPS)


def _stepped_over(code: bytes) -> int:
    """Bytes of the first instruction if whoever calls cannot tell whether it ran."""
    if code.startswith(_ENDBR64):
        return len(_ENDBR64)
    # A constant into rax, which holds no argument.
    return _LOAD_RAX_BYTES if code.startswith(_LOAD_RAX) else 0


def choose_site(elf: Elf, offset: int) -> Site:
    """The place to probe a function that starts at this file offset."""
    code = elf.bytes_at(offset, min(32, elf.size - offset))
    at = 0
    # Arguments and return address are as they were: further on is as good.
    while step := _stepped_over(code[at:]):
        at += step
    if _emulated(code[at:]):
        return Site(offset + at)
    after = f" after {code[:4].hex(' ')}" if at else ""
    return Site(offset, f"would be single-stepped: starts with {code[at : at + 4].hex(' ')}{after}")
