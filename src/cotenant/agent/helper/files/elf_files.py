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
from cotenant.probes.plan import Plan, plan
from cotenant.probes.sites import Kind, Site, Stepping
from cotenant.probes.tables import FUNCTIONS

# Of tables: to look through them takes some ten milliseconds.
_LIGHT: Final = 8 << 20
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
    exposed: bool
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
            if _is_light(fd):
                return plan(fd, functions, stepping)
        except NoElf:
            return None
        wanted = PlanWanted(tuple(f.id for f in functions), str(stepping))
        try:
            found = _decoded(self._readers.ask(tenant, fd, encode(wanted)), PlanFound)
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
        if _is_light(fd):
            return _HANDLERS[type(wanted)](fd, wanted)
        return self._readers.ask(tenant, fd, encode(wanted))


def _is_light(fd: int) -> bool:
    with Elf(fd) as elf:
        return elf.weight <= _LIGHT


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
    try:
        return _HANDLERS[type(wanted)](fd, wanted)
    except MemoryError:
        raise BadElf("takes too much memory to read") from None


def _answer_plan(fd: int, wanted: PlanWanted) -> bytes:
    functions = [_BY_ID[number] for number in wanted.functions]
    try:
        found = plan(fd, functions, Stepping(wanted.stepping))
    except BadElf as error:
        return encode(PlanFound(unreadable=str(error)[:_SHORT]))
    if found is None:
        return encode(PlanFound())
    placed = tuple(
        _PlacedSite(
            p.function.id,
            p.offset,
            p.offset if p.start is None else p.start,
            p.length,
            p.exposed,
            str(found.sites[p.offset].kind),
        )
        for p in found.placed
    )
    return encode(PlanFound(found.kinds, found.build_id, placed, found.refused))


def _plan_of(found: PlanFound, stepping: Stepping) -> Plan:
    placed, sites = [], {}
    for number, offset, start, length, exposed, kind in found.placed:
        placed.append(Placed(_BY_ID[number], offset, start, length, exposed))
        sites[offset] = Site(start, offset, length, Kind(kind))
    return Plan(found.kinds, found.build_id, tuple(placed), dict(found.refused), sites, stepping)


def _answer_variables(fd: int, wanted: VariablesWanted) -> bytes:
    with Elf(fd, strings_max=1 << 40) as elf:
        return elf.variables(wanted.ending).tobytes()


def _answer_name(fd: int, wanted: NameWanted) -> bytes:
    with Elf(fd) as elf:
        inside = elf.address_of(wanted.offset)
        name = elf.name_at(inside) if inside is not None else None
        return encode(NameFound(name, inside, elf.build_id()))


def _answer_starts(fd: int, _: StartsWanted) -> bytes:
    with Elf(fd) as elf:
        return elf.function_starts().tobytes()


_HANDLERS: Final[dict[type, Callable[[int, Any], bytes]]] = {
    PlanWanted: _answer_plan,
    VariablesWanted: _answer_variables,
    NameWanted: _answer_name,
    StartsWanted: _answer_starts,
}
