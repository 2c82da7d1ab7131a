"""A file into its probes: what it defines, where each probe sits, what is refused."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from cotenant.probes.attach import Placed
from cotenant.probes.elf import BadElf, Elf
from cotenant.probes.function import Function, Library
from cotenant.probes.sites import LONGEST, Kind, Site, Stepping, choose_site
from cotenant.probes.tables import MARKERS

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
    def blind(self) -> bool:
        """Whether it is a driver whose launches go unseen."""
        return MARKERS[Library.CUDA] in self.refused


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
    extents = elf.extents(wanted)
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
        if site.refused:
            refused[symbol] = site.refused
        else:
            taken.setdefault(site.offset, Placed(function, site.offset))
            sites[site.offset] = site
    return Plan(kinds, elf.build_id(), tuple(taken.values()), refused, sites, stepping)


def held_path(fd: int) -> str:
    """A path to an open file that no rename or unmount can change."""
    return f"/proc/{os.getpid()}/fd/{fd}"
