"""What the helper tells the recorder.

The helper is privileged, but its reports carry tenants' texts: whoever makes one cuts what a tenant
wrote to the bounds given here, for a report that exceeds them is dropped as a whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, NamedTuple, Self

from cotenant.agent.bounds import Chars, HalfWord, MaxItems, Range, Signed, Word
from cotenant.agent.process import Process
from cotenant.identity.naming.names import LABELS_MAX, Names

LINE_MAX: Final = 1 << 14  # Characters of a line, with a path in it.
NAME_MAX: Final = 1 << 14  # Of a kernel's name.
_TROUBLE_MAX: Final = 200

_Line = Annotated[str, Chars(LINE_MAX, quotes_files=True)]
_Path = Annotated[str, Chars(LINE_MAX)]  # Of a cgroup: a byte may be spelled with four characters.
_Short = Annotated[str, Chars(64)]
_KernelName = Annotated[str, Chars(NAME_MAX)]
_Count = Annotated[int, Range(0, (1 << 63) - 1)]
_Cost = Annotated[float, Range(0, 1e12)]
Where = Literal["channel", "discovery", "inspector", "keeper", "naming"]
_Several = MaxItems(1 << 14)  # More than fit into one part of a long list.


@dataclass(frozen=True, slots=True)
class MapsShared:
    """Programs are in the kernel; with it come descriptors of these maps, in their order.

    The last one is a socket, for a recorder that cannot read maps itself.
    """

    names: Annotated[tuple[_Short, ...], MaxItems(64)]
    method: _Short
    cost_ns: _Cost  # Of a recorded call.
    stepped_ns: _Cost  # Of one whose probe is single-stepped.


@dataclass(frozen=True, slots=True)
class HooksRefused:
    """Programs that could not be placed in the kernel: what is lost, and why."""

    reasons: Annotated[Mapping[_Short, _Line], MaxItems(256)]


@dataclass(frozen=True, slots=True)
class TrialReady:
    """A function of our own is probed, by programs of these families."""

    families: Annotated[tuple[_Short, ...], MaxItems(64)]


@dataclass(frozen=True, slots=True)
class Ready:
    """Everything that is there is probed."""

    priority: _Short  # How the helper goes before others on a busy host.


@dataclass(frozen=True, slots=True)
class Failed:
    """The helper gives up; its last report."""

    text: _Line
    exit_code: Annotated[int, Range(0, 255)]


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something failed that nobody may die of."""

    of: Where
    text: _Line

    @classmethod
    def by(cls, of: Where, error: Exception | str) -> Self:
        """What to say, whatever a tenant has put into it."""
        text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        return cls(of, text[:_TROUBLE_MAX])


@dataclass(frozen=True, slots=True)
class WorkPassedOver:
    """How much was not looked at so far, because a tenant brought too much: by kind and tenant."""

    counts: Annotated[
        Mapping[_Short, Annotated[Mapping[_Path, _Count], MaxItems(256)]],
        MaxItems(64),
    ]


@dataclass(frozen=True, slots=True)
class RunsMissed:
    """Programs that the kernel did not run when it should have, and how often."""

    programs: Annotated[Mapping[_Short, _Count], MaxItems(1024)]


@dataclass(frozen=True, slots=True)
class ForksWaited:
    """No process on the host could fork while a change of probes waited for a memory lock."""

    tenant: _Path  # Of the process whose lock it was; empty if none was found.
    pid: HalfWord
    comm: _Short
    what: _Short  # What happened to the probes: "placed" or "removed".
    waited_s: _Cost
    end_ns: _Count  # By the monotonic clock.
    aborted: Annotated[tuple[HalfWord, ...], MaxItems(64)] = ()  # FUSE connections, by number.


@dataclass(frozen=True, slots=True)
class Stopped:
    """No probe fires any more; so many perf events are left to the kernel to remove.

    ``held_up`` says which process was in the way of removing the rest; empty if none was.
    """

    left: _Count
    held_up: _Line = ""


@dataclass(frozen=True, slots=True)
class LibraryReport:
    """A library was met: what is probed in it, and why the rest is not."""

    path: _Line
    attached: _Count
    refused: Annotated[Mapping[_Short, _Line], MaxItems(4096)] = field(default_factory=dict)
    kinds: Annotated[tuple[_Short, ...], MaxItems(16)] = ()
    build_id: Annotated[str, Chars(4096)] | None = None
    stepped: _Count = 0
    blind: bool = False  # A driver whose launches go unseen.
    gap_ns: Signed | None = None


@dataclass(frozen=True, slots=True)
class AttachGap:
    """A tenant had a library mapped before it was probed: what it called meanwhile went unseen.

    Told once for each tenant and library, and again if an earlier mapping becomes known.
    """

    # The outermost cgroup that is somebody's; "?" if the process was gone by then, "??" if its path
    # is too long for the kernel to tell.
    tenant: _Path
    library: _Line
    begin_ns: _Count  # When it was mapped, by the monotonic clock.
    end_ns: _Count  # When its probes were placed; if they never were, when that was found out.
    probed: bool
    kinds: Annotated[tuple[_Short, ...], MaxItems(16)] = ()  # Of library, where that is known.


class Blind(NamedTuple):
    """A tenant some of whose calls are not seen, since when by the monotonic clock."""

    tenant: _Path
    families: Annotated[tuple[_Short, ...], MaxItems(16)]
    since_ns: _Count
    op: _Short = ""  # Calls of this operation alone, as long as the library is the same.


@dataclass(frozen=True, slots=True)
class Rested:
    """A request to rest is done, for these tenants; all others had all of their probes by then."""

    number: HalfWord
    done: bool  # Every probe went or came back as it was to.
    blind: Annotated[tuple[Blind, ...], _Several] = ()
    done_ns: _Count = 0


@dataclass(frozen=True, slots=True)
class Unprobed:
    """All tenants who have functions mapped that have no probe; others had theirs by then."""

    blind: Annotated[tuple[Blind, ...], _Several]
    done_ns: _Count


@dataclass(frozen=True, slots=True)
class PointerReport:
    """A function that was handed out by address is probed, or refused for a reason."""

    pid: HalfWord
    name: Annotated[str, Chars(256)]
    refused: _Line | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """Names of the container, job or user whose cgroup is at this path."""

    key: _Path
    names: Annotated[Names, Chars(4096), MaxItems(LABELS_MAX)]
    named_ns: _Count


@dataclass(frozen=True, slots=True)
class DevicesFound:
    """GPUs and MIG instances that a process has open, and whether it speaks to MPS.

    If the driver lists the GPUs of the host, the process can use no other than these; unless it
    could not be looked at, because it is gone or has too much open.
    """

    process: Process
    files: Annotated[tuple[str, ...], MaxItems(4096), Chars(256)]
    instances: Annotated[tuple[str, ...], MaxItems(4096), Chars(256)]
    mps: bool
    listed: bool = False
    looked: bool = True


class KernelFound(NamedTuple):
    """A kernel's name; where it is not known, what to call it."""

    handle: Word
    stub: Word
    name: _KernelName
    known: bool


@dataclass(frozen=True, slots=True)
class KernelsFound:
    """Names of a process's kernels that were asked for."""

    process: Process
    kernels: Annotated[tuple[KernelFound, ...], _Several]


class KernelText(NamedTuple):
    """The name that a program gave a kernel when it registered it."""

    handle: Word
    text: _KernelName


@dataclass(frozen=True, slots=True)
class TextsRead:
    """Names in a process's memory that a probe could not read."""

    process: Process
    tenant: _Path
    texts: Annotated[tuple[KernelText, ...], _Several]


@dataclass(frozen=True, slots=True)
class Inspected:
    """Everything about the question with this number is told."""

    number: HalfWord


@dataclass(frozen=True, slots=True)
class MemoryUnsure:
    """Processes of whose GPU memory not all is seen."""

    processes: Annotated[tuple[Process, ...], _Several]


Report = (
    MapsShared
    | HooksRefused
    | TrialReady
    | Ready
    | Failed
    | Trouble
    | WorkPassedOver
    | RunsMissed
    | ForksWaited
    | Stopped
    | LibraryReport
    | AttachGap
    | Rested
    | Unprobed
    | PointerReport
    | Named
    | DevicesFound
    | KernelsFound
    | TextsRead
    | Inspected
    | MemoryUnsure
)
