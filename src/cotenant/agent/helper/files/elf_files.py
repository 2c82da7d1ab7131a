"""What tenants' ELF files tell: small ones are read here, all others by a process of their own."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.ma  # Used by numpy itself, where it could not be opened any more.
import numpy.typing as npt

from cotenant.agent.bounds import Chars, HalfWord, MaxItems, Word
from cotenant.agent.helper.files.readers import Readers
from cotenant.agent.protocol.checks import Malformed
from cotenant.agent.protocol.codec import Decoder, encode
from cotenant.probes.attach import Placed
from cotenant.probes.elf import VARIABLE, BadElf, Elf, NoElf, NotRead
from cotenant.probes.function import Function
from cotenant.probes.plan import Plan, plan_of
from cotenant.probes.sites import Kind, Site, Stepping
from cotenant.probes.tables import FUNCTIONS

# Of tables: to look through them takes some ten milliseconds.
_LIGHT: Final = 8 << 20
# How often a table is read at most, for one question; and bytes of code besides.
_TIMES: Final = 16
_CODE: Final = 4 << 20
_STRINGS_MAX: Final = 1 << 40
_BY_ID: Final = {function.id: function for function in FUNCTIONS}
_SHORT: Final = 256
_Short = Annotated[str, Chars(_SHORT)]
_F = TypeVar("_F")


@dataclass(frozen=True, slots=True)
class PlanWanted:
    """Which of these functions can be probed, and where?"""

    functions: Annotated[tuple[HalfWord, ...], MaxItems(4096)]
    stepping: _Short


@dataclass(frozen=True, slots=True)
class VariablesWanted:
    """Which variables have names that end so?"""

    ending: _Short


@dataclass(frozen=True, slots=True)
class NameWanted:
    """Which function is at this place of the file?"""

    offset: Word


@dataclass(frozen=True, slots=True)
class StartsWanted:
    """Where do functions start?"""


class _PlacedSite(NamedTuple):
    function: HalfWord
    offset: Word
    start: Word
    length: HalfWord
    kind: _Short


@dataclass(frozen=True, slots=True)
class PlanFound:
    """A plan; ``kinds`` is empty if the file is no library of ours, or none that can be read."""

    kinds: Annotated[tuple[_Short, ...], MaxItems(16)] = ()
    build_id: Annotated[str, Chars(4096)] | None = None
    placed: Annotated[tuple[_PlacedSite, ...], MaxItems(4096)] = ()
    refused: Annotated[Mapping[_Short, _Short], MaxItems(4096)] = field(default_factory=dict)
    unreadable: _Short | None = None  # Why.


@dataclass(frozen=True, slots=True)
class NameFound:
    """The name of a function, or what is known of its file instead."""

    name: Annotated[str, Chars(1 << 16)] | None
    inside: Word | None
    build_id: Annotated[str, Chars(4096)] | None


_Wanted = PlanWanted | VariablesWanted | NameWanted | StartsWanted
_QUESTIONS: Final[Decoder[Any]] = Decoder((PlanWanted, VariablesWanted, NameWanted, StartsWanted))
_ANSWERS: Final[Decoder[Any]] = Decoder((PlanFound, NameFound))


class ElfFiles:
    """Asks this process or another one, by how much there is to read."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    def plan(
        self, tenant: str, fd: int, functions: Iterable[Function], stepping: Stepping
    ) -> Plan | None:
        """What to probe in an open file; None if it is no library of ours, or no ELF file at all.

        BadElf if it cannot be read whole, NotRead if that is nothing that it says itself.
        """
        try:
            elf, weight = _weighed(fd)
            if weight <= _LIGHT:
                return plan_of(elf, functions, stepping)
        except NoElf:
            return None
        wanted = PlanWanted(tuple(f.id for f in functions), str(stepping))
        try:
            found = _decoded(self._readers.ask(tenant, fd, encode(wanted), weight), PlanFound)
        except BadElf as error:
            raise NotRead(str(error)) from None
        if found.unreadable is not None:
            raise BadElf(found.unreadable)
        return _plan_of(found, stepping) if found.kinds else None

    def variables(self, tenant: str, fd: int, ending: str) -> npt.NDArray[np.void]:
        """Variables whose names end so, by address."""
        return np.frombuffer(self._answer(tenant, fd, VariablesWanted(ending)), VARIABLE)

    def name_at(self, tenant: str, fd: int, offset: int) -> NameFound:
        """The function at this place of a file."""
        return _decoded(self._answer(tenant, fd, NameWanted(offset)), NameFound)

    def function_starts(self, tenant: str, fd: int) -> npt.NDArray[np.uint64]:
        """Addresses at which a function starts."""
        return np.frombuffer(self._answer(tenant, fd, StartsWanted()), np.uint64)

    def _answer(self, tenant: str, fd: int, wanted: _Wanted) -> bytes:
        elf, weight = _weighed(fd)
        if weight <= _LIGHT:
            return _HANDLERS[type(wanted)](elf, wanted)
        return self._readers.ask(tenant, fd, encode(wanted), weight)


def _weighed(fd: int) -> tuple[Elf, int]:
    """A file by the headers that it has now, whatever its owner writes into it meanwhile."""
    with Elf(fd) as elf:
        weight = elf.weight
        elf.bound(_TIMES * weight + _CODE)
        return elf, weight


def _decoded(data: bytes, kind: type[_F]) -> _F:
    try:
        found = _ANSWERS.decode(data)
    except Malformed as error:
        raise BadElf(str(error)) from None
    if not isinstance(found, kind):
        raise BadElf("was not understood")
    return found


def answer(fd: int, question: bytes) -> bytes:
    """What a file says to a question, in whatever process this runs."""
    wanted = _QUESTIONS.decode(question)
    strings = {"strings_max": _STRINGS_MAX} if isinstance(wanted, VariablesWanted) else {}
    try:
        with Elf(fd, **strings) as elf:
            return _HANDLERS[type(wanted)](elf, wanted)
    except MemoryError:
        raise BadElf("takes too much memory to read") from None
    except BadElf as error:
        if not isinstance(wanted, PlanWanted):
            raise
        why = None if isinstance(error, NoElf) else str(error)[:_SHORT]
        return encode(PlanFound(unreadable=why))


def _answer_plan(elf: Elf, wanted: PlanWanted) -> bytes:
    functions = [_BY_ID[number] for number in wanted.functions]
    found = plan_of(elf, functions, Stepping(wanted.stepping))
    if found is None:
        return encode(PlanFound())
    placed = tuple(
        _PlacedSite(
            p.function.id,
            p.offset,
            p.offset if p.start is None else p.start,
            p.length,
            str(found.sites[p.offset].kind),
        )
        for p in found.placed
    )
    return encode(PlanFound(found.kinds, found.build_id, placed, found.refused))


def _plan_of(found: PlanFound, stepping: Stepping) -> Plan:
    placed, sites = [], {}
    for number, offset, start, length, kind in found.placed:
        placed.append(Placed(_BY_ID[number], offset, start, length))
        sites[offset] = Site(start, offset, length, Kind(kind))
    return Plan(found.kinds, found.build_id, tuple(placed), dict(found.refused), sites, stepping)


def _answer_variables(elf: Elf, wanted: VariablesWanted) -> bytes:
    return elf.variables(wanted.ending).tobytes()


def _answer_name(elf: Elf, wanted: NameWanted) -> bytes:
    inside = elf.address_of(wanted.offset)
    name = elf.name_at(inside) if inside is not None else None
    return encode(NameFound(name, inside, elf.build_id()))


def _answer_starts(elf: Elf, _: StartsWanted) -> bytes:
    return elf.function_starts().tobytes()


_HANDLERS: Final[dict[type, Callable[[Elf, Any], bytes]]] = {
    PlanWanted: _answer_plan,
    VariablesWanted: _answer_variables,
    NameWanted: _answer_name,
    StartsWanted: _answer_starts,
}
