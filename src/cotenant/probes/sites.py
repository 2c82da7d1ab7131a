"""Where in a function a probe may sit without harm.

A uprobe replaces the first byte of an instruction. The kernel emulates a few kinds; every other
is single-stepped out of line, which costs ten times as much and has corrupted processes. A probe
inside an instruction corrupts whoever runs it. So a site is either known to be good, or refused.
"""

from dataclasses import dataclass
from typing import Final

from cotenant.probes.elf import Elf

_ENDBR64: Final = b"\xf3\x0f\x1e\xfa"
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


def choose_site(elf: Elf, offset: int) -> Site:
    """The place to probe a function that starts at this file offset."""
    code = elf.bytes_at(offset, 16)
    if code.startswith(_ENDBR64):
        # Arguments and return address are untouched by endbr64: one step further is as good.
        if _emulated(code[4:]):
            return Site(offset + 4)
        return Site(offset, f"would be single-stepped: {code[4:8].hex(' ')} after endbr64")
    if _emulated(code):
        return Site(offset)
    return Site(offset, f"would be single-stepped: starts with {code[:4].hex(' ')}")
