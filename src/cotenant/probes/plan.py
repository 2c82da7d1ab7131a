"""Plans the probes of a file: which functions it defines, which get probes, which are refused."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

import numpy as np

from cotenant.probes.attach import Placed
from cotenant.probes.changes import PATCH_BYTES
from cotenant.probes.elf import PLACES_MAX, BadElf, Elf, Extent, NoElf
from cotenant.probes.entries import are_trampolines, behind
from cotenant.probes.function import Function, Library
from cotenant.probes.sites import LONGEST, Kind, Site, Stepping, choose_site
from cotenant.probes.tables import MARKERS, SIGNS
from cotenant.probes.ucx import EXPECTED, HOOKED, reaches

# Bytes of all functions of a file that branches are looked for in: real ones have a few thousand.
_LOOKED_THROUGH_MAX: Final = 1 << 20
_SHARED: Final = "shares the place of its probe with another function"


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
        return self.blind_without(())

    def blind_without(self, symbols: Collection[str]) -> bool:
        """The same if these are left alone, too."""
        return MARKERS[Library.CUDA] in (*self.refused, *symbols)


def plan(fd: int, functions: Iterable[Function], stepping: Stepping = Stepping.NONE) -> Plan | None:
    """What to probe in an open file; None if it is no library of ours, or no ELF file at all.

    BadElf if it is an ELF file, and cannot be read whole.
    """
    try:
        with Elf(fd) as elf:
            return plan_of(elf, functions, stepping)
    except NoElf:
        return None


def _kinds(elf: Elf) -> tuple[str, ...]:
    signs = set(chain(*SIGNS.values()))
    found: set[str] = set()
    if elf.exports(signs):
        found |= elf.find(signs).keys() | elf.no_functions(signs).keys()
    kinds = tuple(str(kind) for kind, symbols in SIGNS.items() if not found.isdisjoint(symbols))
    if not kinds and (why := elf.left_out()):
        raise BadElf(why)
    return kinds


def _without_trampolines(
    elf: Elf,
    kinds: tuple[str, ...],
    wanted: Mapping[str, Function],
    places: Mapping[str, list[Extent]],
) -> tuple[tuple[str, ...], dict[str, Function]]:
    """Kinds of which the file has more than stubs that jump to another library's functions."""

    def of(kind: str) -> list[Extent]:
        mine = (places.get(s, ()) for s, f in wanted.items() if str(f.library) == kind)
        return list(chain(*mine))

    kept = tuple(kind for kind in kinds if not (ours := of(kind)) or not are_trampolines(elf, ours))
    return kept, {s: f for s, f in wanted.items() if str(f.library) in kept}


def plan_of(elf: Elf, functions: Iterable[Function], stepping: Stepping) -> Plan | None:
    """The same for a file whose headers are read already."""
    kinds = _kinds(elf)
    if not kinds:
        return None
    wanted = {f.symbol: f for f in functions if str(f.library) in kinds}
    places = elf.places({*wanted, *HOOKED})
    kinds, wanted = _without_trampolines(elf, kinds, wanted, places)
    if not kinds:
        return None
    hooked = [place for symbol in HOOKED & places.keys() for place in places[symbol]]
    starts = {place.offset for place in hooked}
    sites = _Sites(elf, behind(elf, chain(*places.values())) if hooked else {})
    refused = elf.no_functions(wanted.keys() - places.keys())
    taken: dict[int, dict[int, Placed]] = {}  # By their sites, then by where functions start.
    chosen: dict[int, Site] = {}
    # In the table's order, so that of two names for one address the first stands.
    for symbol, function in wanted.items():
        mine = places.get(symbol, [])
        if len(mine) > PLACES_MAX:
            refused[symbol] = f"is defined at more than {PLACES_MAX} places"
            continue
        for place in mine:
            site = sites.choose(symbol, place, stepped=stepping.allows(function))
            why = site.refused
            if not why and reaches(starts, site.offset, site.length):
                why = EXPECTED
            if why:
                refused[symbol] = why
                continue
            placed = Placed(function, site.offset, site.start, site.length)
            taken.setdefault(site.offset, {}).setdefault(site.start, placed)
            chosen[site.offset] = site
    for offset in [offset for offset, those in taken.items() if len(those) > 1]:
        # Whose call it is would be a guess.
        refused |= {p.function.symbol: _SHARED for p in taken.pop(offset).values()}
        del chosen[offset]
    every = tuple(chain(*(those.values() for those in taken.values())))
    return Plan(kinds, elf.build_id(), every, refused, chosen, stepping)


class _Sites:
    """Chooses the sites of a file's functions."""

    def __init__(self, elf: Elf, inner: Mapping[Extent, Extent]) -> None:
        self._elf = elf
        self._inner = inner
        self._written = elf.written_code()
        self._left = _LOOKED_THROUGH_MAX

    def choose(self, symbol: str, place: Extent, *, stepped: bool) -> Site:
        """The site of one function, or why it has none."""
        longest = min(self._left, LONGEST)
        site = choose_site(self._elf, place, stepped=stepped, longest=longest)
        unseen = site.offset == site.start and site.kind is Kind.EMULATED and not site.refused
        if place.size <= longest and not unseen:
            self._left -= place.size
        if symbol in HOOKED and place in self._inner:
            # Clear of what is written over the entry, if it may be probed there.
            further = choose_site(self._elf, self._inner[place])
            site = site if further.refused else further
        why = site.refused or self._why_not(site)
        return replace(site, refused=why)

    def _why_not(self, site: Site) -> str | None:
        """Why the kernel would place no probe in memory, or have another instruction there."""
        if self._elf.is_writable(site.offset):
            return "is loaded as writable code"
        end = max(site.start + PATCH_BYTES, site.offset + site.length)
        # An address has eight bytes at most.
        low, high = np.searchsorted(self._written, (site.start - 7, end))
        return "is written to when loaded" if low < high else None
