"""Functions of a file into links in the kernel: the only code that places probes.

Three ways, best first: a *session* (one program sees entry and return), *multi* (a link for
entries and one for returns), *pair* (a perf event for each end of each function). All are links
held by a descriptor: when the last process that has it ends, however it ends, the probes are gone.
"""

import ctypes
import fcntl
import os
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Final, Protocol

from cotenant.errors import ProbeError
from cotenant.probes import syscalls
from cotenant.probes.door import Door
from cotenant.probes.function import CallFamily, Flag, Function
from cotenant.probes.threads import in_parallel
from cotenant.schema.constants import COOKIE_FUNCTION_BITS, ENDED_MAX, MAPS


class Method(StrEnum):
    """How entry and return of a function reach a program."""

    SESSION = "session"
    MULTI = "multi"
    PAIR = "pair"


_PERF_EVENT_DISABLE: Final = 0x2401
PLACE_S: Final = 1.5  # For a process that keeps its memory locked; then the file comes again.

# For each method, the programs of a family and the attach type they are loaded with. Returns come
# first: of a call that is seen to begin, the end is seen, too.
PROGRAMS: Final = {
    Method.SESSION: {"session": syscalls.ATTACH_UPROBE_SESSION},
    Method.MULTI: {
        "return": syscalls.ATTACH_UPROBE_MULTI,
        "enter": syscalls.ATTACH_UPROBE_MULTI,
    },
    Method.PAIR: {"return": -1, "enter": -1},
}


@dataclass(frozen=True, slots=True)
class Placed:
    """A function and the file offset at which its probe sits."""

    function: Function
    offset: int
    start: int | None = None  # Of the code that the probe is in; it may sit further on.
    length: int = 1  # Of the instruction under the probe.


@dataclass(slots=True)
class Attachment:
    """Links on one file, and the file; closing the links removes the probes."""

    number: int = 0
    file: int = -1
    links: list[int] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    keeper: "LinkKeeper | None" = None  # Who has copies of them.

    @property
    def empty(self) -> bool:
        """Whether there is no probe."""
        return not (self.links or self.events)

    def silence(self) -> None:
        """Have no program run any more, at once; what is left to remove can wait.

        Removing perf events waits for the kernel once for each of them, one after the other
        under one lock: more threads do not help.
        """
        for event in self.events:
            fcntl.ioctl(event, _PERF_EVENT_DISABLE, 0)

    def close(self) -> None:
        """Remove the probes at once: only where no other process has the file mapped."""
        Attachment.close_all([self])

    @staticmethod
    def close_all(attachments: "Iterable[Attachment]") -> None:
        """The same for several, in parallel: each removal waits for the kernel."""
        attachments = list(attachments)
        for one in attachments:
            if one.keeper and not one.empty:
                one.keeper.release(one.number)
        in_parallel(
            partial(os.close, fd) for one in attachments for fd in chain(one.links, one.events)
        )
        for one in attachments:
            one.links, one.events = [], []
            if one.file >= 0:
                os.close(one.file)
            one.file = -1


class LinkKeeper(Protocol):
    """Another process with copies of all links: probes stay until it closes them, too."""

    def hold(self, number: int, file: int, fds: Sequence[int]) -> None:
        """Have copies of more descriptors of this attachment, on this open file."""

    def release(self, number: int) -> None:
        """Close the copies of this attachment; they are closed on return."""


class Attacher:
    """Places probes by one method, with programs that are already loaded."""

    def __init__(
        self,
        method: Method,
        programs: Mapping[str, int],
        ended: int | None = None,
        *,
        door: Door | None = None,
        keeper: LinkKeeper | None = None,
        remove: Callable[[Attachment], None] | None = None,
    ) -> None:
        self.method = method
        self._programs = programs
        self._ended = ended  # The map of attachments that another one replaced.
        self._door = door or Door()
        self._keeper = keeper
        self.remove = remove or self._remove_now
        self._numbers = count(1)

    def attach(self, fd: int, placed: Sequence[Placed], *, pid: int = 0) -> Attachment:
        """Probe these functions of an open file, in one process or in all.

        HeldUp if a process keeps its memory locked that this would wait for.
        """
        done = Attachment(next(self._numbers), os.dup(fd), keeper=self._keeper)
        try:
            for family in CallFamily:
                # Where a record is seen, so is what is queued before and after it: it comes last.
                mine = sorted(
                    (p for p in placed if p.function.family == family),
                    key=lambda p: p.function.step == "EVENT_RECORD",
                )
                if mine and self.method is Method.PAIR:
                    self._attach_pairs(done, mine, pid)
                elif mine:
                    self._attach_links(done, mine, pid)
        except OSError as error:
            self.remove(done)
            refused = self.method is Method.PAIR and isinstance(error, PermissionError)
            advice = f"; {syscalls.PERF_ADVICE}" if refused else ""
            path = held_path(fd)
            raise ProbeError(f"cannot attach to {path}: {error.strerror}{advice}") from error
        except ProbeError:
            self.remove(done)
            raise
        return done

    def retire(self, old: Attachment) -> None:
        """Count no call that these probes see begin or return, for others took their place.

        Calls that they saw begin may return unrecorded from now on, which programs have to know
        before the probes go.
        """
        if self._ended is not None:
            place, number = old.number % ENDED_MAX, old.number
            key_bytes, value_bytes = MAPS["ended"]
            syscalls.map_update(
                self._ended,
                place.to_bytes(key_bytes, "little"),
                number.to_bytes(value_bytes, "little"),
            )

    def _remove_now(self, attachment: Attachment) -> None:
        """Remove probes; where this returns, they are gone."""
        self._door.remove_patiently(attachment.file, attachment.close)

    def _add(self, done: Attachment, into: list[int], create: Callable[[], int]) -> int:
        fd = self._door.place(done.file, create, PLACE_S)
        into.append(fd)
        if self._keeper:
            self._keeper.hold(done.number, done.file, [fd])
        return fd

    def _attach_links(self, done: Attachment, placed: list[Placed], pid: int) -> None:
        family = placed[0].function.family
        for name, attach_type in PROGRAMS[self.method].items():
            returns = name == "return"
            sites = [
                (p.offset, _cookie(done, p))
                for p in placed
                if not returns or _has_return(p.function)
            ]
            if sites:
                create = partial(
                    syscalls.attach_uprobes,
                    self._programs[f"{family}_{name}"],
                    held_path(done.file),
                    sites,
                    attach_type=attach_type,
                    returns=returns,
                    pid=pid,
                )
                self._add(done, done.links, create)

    def _attach_pairs(self, done: Attachment, placed: list[Placed], pid: int) -> None:
        for p in placed:
            if _has_return(p.function):
                self._pair(done, p, returns=True, pid=pid)
            self._pair(done, p, returns=False, pid=pid)

    def _pair(self, done: Attachment, placed: Placed, *, returns: bool, pid: int) -> None:
        program = self._programs[f"{placed.function.family}_{'return' if returns else 'enter'}"]
        path = held_path(done.file)
        create = partial(_open_uprobe, path, placed.offset, returns=returns, pid=pid)
        # The event stays open as long as its link.
        event = self._add(done, done.events, create)
        attach = partial(syscalls.attach_perf, program, event, _cookie(done, placed))
        self._add(done, done.links, attach)


def held_path(fd: int) -> str:
    """A path to an open file that no rename or unmount can change."""
    return f"/proc/{os.getpid()}/fd/{fd}"


def _cookie(attachment: Attachment, placed: Placed) -> int:
    """What programs are told: as attachment_of() in bpf/common/thread.bpf.h reads it."""
    return attachment.number << COOKIE_FUNCTION_BITS | placed.function.id


def _has_return(function: Function) -> bool:
    return not function.flags & Flag.AT_ENTRY


def _open_uprobe(path: str, offset: int, *, returns: bool, pid: int) -> int:
    """A perf event for one end of one function, in every process on every CPU."""
    source = Path("/sys/bus/event_source/devices/uprobe")
    kind = int((source / "type").read_text())
    # "config:0" names the bit that asks for the return.
    bit = int((source / "format/retprobe").read_text().partition(":")[2])
    name = ctypes.create_string_buffer(path.encode())
    attributes = bytearray(136)
    struct.pack_into("IIQ", attributes, 0, kind, len(attributes), (1 << bit) if returns else 0)
    struct.pack_into("QQ", attributes, 56, ctypes.addressof(name), offset)
    if pid:
        return syscalls.perf_event_open(bytes(attributes), pid=pid, cpu=-1)
    return syscalls.perf_event_open(bytes(attributes), pid=-1, cpu=0)
