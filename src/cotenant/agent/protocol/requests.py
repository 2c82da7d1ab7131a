"""What the recorder asks of the helper.

The recorder reads what tenants write, and may have been taken over: the helper takes nothing but
these, within these bounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple

from cotenant.agent.bounds import Chars, HalfWord, MaxItems, Range, Signed, Word
from cotenant.agent.config import Config
from cotenant.agent.process import Nameless, Process

ProbesChoice = Literal["auto", "emulated", "any"]
LayersChoice = Literal["auto", "driver", "both"]

_Short = Annotated[str, Chars(32)]
_Several = MaxItems(1 << 14)  # More than fit into one part of a long list.


@dataclass(frozen=True, slots=True)
class HelperSettings:
    """One recording, as far as it is the helper's."""

    events_bytes: Annotated[int, Range(1, 1 << 62)]
    config: Annotated[Config, Chars(1 << 14), MaxItems(1 << 12)]
    events: Annotated[tuple[_Short, ...], MaxItems(64)]
    constants: Annotated[Mapping[Annotated[str, Chars(64)], Signed], MaxItems(64)] = field(
        default_factory=dict
    )
    attach: _Short | None = None
    probes: ProbesChoice = "auto"
    layers: LayersChoice = "both"
    trial: bool = False  # Nothing of a tenant is probed.


@dataclass(frozen=True, slots=True)
class Begin:
    """Load and attach; the first request."""

    settings: HelperSettings


@dataclass(frozen=True, slots=True)
class TrialDone:
    """A call of our own was seen: probe others."""


@dataclass(frozen=True, slots=True)
class Inspect:
    """Look at what these processes have open, and find these kernels' names.

    Answered by any number of messages and in the end by ``Inspected`` with this number; nobody
    waits for the answer to number 0.
    """

    number: HalfWord = 0
    processes: Annotated[tuple[Process, ...], _Several] = ()
    kernels: Annotated[tuple[Nameless, ...], _Several] = ()


class HandedOut(NamedTuple):
    """A function that a driver handed out by address."""

    process: Process
    address: Word
    name: Annotated[str, Chars(256)]
    version: HalfWord
    flags: Signed


@dataclass(frozen=True, slots=True)
class FollowPointers:
    """Probe what was handed out, where that is safe."""

    pointers: Annotated[tuple[HandedOut, ...], _Several]


@dataclass(frozen=True, slots=True)
class ChooseLayers:
    """Probe the runtime's functions, or leave them because the driver's tell the same."""

    runtime: bool


@dataclass(frozen=True, slots=True)
class Rest:
    """By the cgroup of a tenant: functions that are to be without probes where only it calls them.

    Answered by ``Rested`` with this number.
    """

    tenants: Annotated[
        Mapping[Annotated[str, Chars(1 << 14)], Annotated[tuple[HalfWord, ...], _Several]],
        MaxItems(1 << 12),
    ]
    number: HalfWord


@dataclass(frozen=True, slots=True)
class Stop:
    """Remove every probe; answered by ``Stopped``."""


Request = Begin | TrialDone | Inspect | FollowPointers | ChooseLayers | Rest | Stop
