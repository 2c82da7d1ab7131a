"""Where in a function a probe may sit without harm.

A uprobe replaces the first byte of an instruction. The kernel emulates a few kinds; every other
is single-stepped out of line, which may cost ten times as much. A probe inside an instruction
corrupts whoever runs it; one behind the first push finds no return address where it must be; one
that the function jumps to counts what is no call. So a site is known to be good, or refused.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from cotenant.probes.code import (
    goes_anywhere,
    instructions,
    is_call,
    is_emulated,
    is_harmless,
    is_mark,
    is_push,
    is_steppable,
    mnemonic,
    target,
)
from cotenant.probes.elf import Elf, Extent
from cotenant.probes.function import WOULD_BE_STEPPED, Flag, Function

_BEGINNING: Final = 64  # Bytes of a function that a site is looked for in.
LONGEST: Final = 1 << 14  # Bytes of a function that branches are looked for in: 3 ms.


class Kind(StrEnum):
    """What the kernel does with the instruction under a probe."""

    EMULATED = "emulated"
    STEPPED = "stepped"


class Stepping(StrEnum):
    """Which functions may have a single-stepped probe where no other is possible."""

    NONE = "none"
    ROWS = "rows"
    ALL = "all"

    def allows(self, function: Function) -> bool:
        """Whether this function may."""
        makes_rows = bool(function.flags & (Flag.OPERATION | Flag.ROW))
        return self is Stepping.ALL or (self is Stepping.ROWS and makes_rows)


@dataclass(frozen=True, slots=True)
class Site:
    """A place for a probe in a file, or why there is none."""

    start: int  # Of the function.
    offset: int  # Of the instruction that is probed.
    length: int = 0  # Of that instruction.
    kind: Kind = Kind.EMULATED
    refused: str | None = None


def choose_site(
    elf: Elf, function: Extent, *, stepped: bool = False, beyond: int = 0, longest: int = LONGEST
) -> Site:
    """The place to probe a function: emulated, else single-stepped where that is allowed.

    ``beyond`` is how many bytes of the function's beginning the probe has to keep clear of; no
    function longer than ``longest`` is looked through for branches.
    """
    emulated, single, stop = _candidates(elf, function, beyond)
    why = f"{WOULD_BE_STEPPED if single else 'has no safe site'}: {stop}"
    if emulated is not None:
        reason = _why_not(elf, function, emulated, longest)
        if reason is None:
            return emulated
        why = reason
    if stepped and single is not None:
        reason = _why_not(elf, function, single, longest)
        if reason is None:
            return single
        why = reason
    return Site(function.offset, function.offset, refused=why)


def _candidates(elf: Elf, function: Extent, beyond: int) -> tuple[Site | None, Site | None, str]:
    """The first emulated and the first other instruction that still sees the call as it was made.

    And what ended the search, in words.
    """
    start = function.offset
    most = min(function.size or _BEGINNING, _BEGINNING, elf.size - start)
    code = elf.bytes_at(start, most)
    single: Site | None = None
    for instruction in instructions(code):
        at, length = instruction.ip, instruction.len
        if at >= beyond:
            if is_emulated(instruction, code[at : at + length]):
                return Site(start, start + at, length), single, ""
            if single is None and is_steppable(instruction):
                single = Site(start, start + at, length, Kind.STEPPED)
        if not is_harmless(instruction):
            return (
                None,
                single,
                f"{'starts' if at == 0 else 'goes on'} with {mnemonic(instruction)}",
            )
    return None, single, "ends before one" if function.size == most else "is not understood"


def _why_not(elf: Elf, function: Extent, site: Site, longest: int) -> str | None:
    """Why a site might be met without a call, or passed by; None if it is not."""
    behind = site.offset - function.offset
    first = _is_first(elf, function, site)
    if not behind and site.kind is Kind.EMULATED:
        return None
    if not 0 < function.size <= longest:
        if first:
            return None
        return "has no known end" if not function.size else "is too long to be looked through"
    end = 0
    for instruction in instructions(elf.bytes_at(function.offset, function.size)):
        end = instruction.next_ip
        to = target(instruction)
        # Who calls the function anew means it; who jumps to its start is in a loop.
        if to is not None and is_call(instruction) <= to <= behind:
            return "jumps back to where its probe would be"
        if not first and goes_anywhere(instruction):
            return "jumps by a table, perhaps to where its probe would be"
    return None if first or end == function.size else "is not understood to its end"


def _is_first(elf: Elf, function: Extent, site: Site) -> bool:
    """Whether it is what the function begins with, but for a mark: no table leads there.

    Behind a mark only a push is: compilers save registers once, before all that loops.
    """
    behind = site.offset - function.offset
    if not behind:
        return True
    decoded = list(instructions(elf.bytes_at(function.offset, behind + site.length)))
    return len(decoded) == 2 and is_mark(decoded[0]) and is_push(decoded[1])
