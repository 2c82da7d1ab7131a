"""Plans the probes of a file: which functions it defines, which get probes, which are refused."""

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from cotenant.probes.attach import Placed
from cotenant.probes.elf import BadElf, Elf
from cotenant.probes.entries import behind
from cotenant.probes.function import Function, Library
from cotenant.probes.sites import LONGEST, Kind, Site, Stepping, choose_site
from cotenant.probes.tables import MARKERS
from cotenant.probes.ucx import EXPECTED, HOOKED, reaches

# Bytes of all functions of a file that branches are looked for in: real ones have a few thousand.
_LOOKED_THROUGH_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Plan:
    """The probes of one file, before any is placed."""

    kinds: tuple[str, ...]
    build_id: str | None
    placed: tuple[Placed, ...]
    refused: dict[str, str] = field(default_factory=dict)
    sites: dict[int, Site] = field(default_factory=dict)  # Of what is placed, by its offset.
    stepping: Stepping = Stepping.NONE

    @property
    def stepped(self) -> int:
        """How many of its probes are single-stepped."""
        return sum(site.kind is Kind.STEPPED for site in self.sites.values())

    @property
    def exposed(self) -> dict[str, str]:
        """Functions that get no probe while UCX may be used, and why."""
        return {p.function.symbol: EXPECTED for p in self.placed if p.exposed}

    @property
    def blind(self) -> bool:
        """Whether it is a driver whose launches go unseen."""
        return self.blind_without(())

    def blind_without(self, symbols: Collection[str]) -> bool:
        """The same if these are left alone, too."""
        return MARKERS[Library.CUDA] in (*self.refused, *symbols)


def plan(fd: int, functions: Iterable[Function], stepping: Stepping = Stepping.NONE) -> Plan | None:
    """What to probe in an open file; None if it is no library of ours or no ELF file."""
    try:
        with Elf(fd) as elf:
            return _plan(elf, functions, stepping)
    except BadElf:
        return None


def _plan(elf: Elf, functions: Iterable[Function], stepping: Stepping) -> Plan | None:
    if not elf.exports(MARKERS.values()):
        return None
    markers = elf.find(MARKERS.values())
    kinds = tuple(str(kind) for kind, symbol in MARKERS.items() if symbol in markers)
    if not kinds:
        return None
    wanted = {f.symbol: f for f in functions if str(f.library) in kinds}
    extents = elf.extents({*wanted, *HOOKED})
    hooked = {symbol: extents[symbol] for symbol in HOOKED & extents.keys()}
    inner = behind(elf, extents.values()) if hooked else {}
    starts = {extent.offset for extent in hooked.values()}
    refused: dict[str, str] = {}
    taken: dict[int, Placed] = {}
    sites: dict[int, Site] = {}
    left = _LOOKED_THROUGH_MAX
    # In the table's order, so that of two names for one address the first stands.
    for symbol, function in wanted.items():
        if symbol not in extents:
            continue
        site = choose_site(
            elf, extents[symbol], stepped=stepping.allows(function), longest=min(left, LONGEST)
        )
        if site.offset != site.start or site.refused:
            left -= min(left, extents[symbol].size)
        if symbol in HOOKED and extents[symbol] in inner:
            # Clear of what is written over the entry, if it may be probed there.
            further = choose_site(elf, inner[extents[symbol]])
            site = site if further.refused else further
        if site.refused:
            refused[symbol] = site.refused
        else:
            exposed = reaches(starts, site.offset, site.length)
            placed = Placed(function, site.offset, site.start, site.length, exposed)
            taken.setdefault(site.offset, placed)
            sites[site.offset] = site
    return Plan(kinds, elf.build_id(), tuple(taken.values()), refused, sites, stepping)


def held_path(fd: int) -> str:
    """A path to an open file that no rename or unmount can change."""
    return f"/proc/{os.getpid()}/fd/{fd}"
