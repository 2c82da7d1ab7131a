"""Functions of a file into links in the kernel: the only code that places probes.

Three ways, best first: a *session* (one program sees entry and return), *multi* (a link for
entries and one for returns), *pair* (a perf event for each end of each function). All are links
held by a descriptor: when the process ends, however it ends, the probes are gone.
"""

import ctypes
import fcntl
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from cotenant.errors import ProbeError
from cotenant.probes import syscalls
from cotenant.probes.function import CallFamily, Flag, Function
from cotenant.probes.threads import in_parallel
from cotenant.schema.constants import COOKIE_FUNCTION_BITS, ENDED_MAX, MAPS


class Method(StrEnum):
    """How entry and return of a function reach a program."""

    SESSION = "session"
    MULTI = "multi"
    PAIR = "pair"


_PERF_EVENT_DISABLE: Final = 0x2401

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
    exposed: bool = False  # Whether UCX writes there.


@dataclass(slots=True)
class Attachment:
    """Links on one file; closing them removes the probes."""

    links: list[int] = field(default_factory=list)
    events: list[int] = field(default_factory=list)
    number: int = 0

    def silence(self) -> None:
        """No program runs any more, at once; what is left to remove can wait.

        Removing perf events waits for the kernel once for each of them, one after the other
        under one lock: more threads do not help.
        """
        for event in self.events:
            fcntl.ioctl(event, _PERF_EVENT_DISABLE, 0)

    def take(self, other: "Attachment") -> None:
        """Hold the other's descriptors from now on."""
        self.links += other.links
        self.events += other.events
        other.links, other.events = [], []

    def close(self) -> None:
        """Remove the probes, in parallel: each removal waits for the kernel."""
        fds = [*self.links, *self.events]
        self.links, self.events = [], []
        in_parallel(partial(os.close, fd) for fd in fds)


class Attacher:
    """Places probes by one method, with programs that are already loaded."""

    def __init__(
        self, method: Method, programs: Mapping[str, int], ended: int | None = None
    ) -> None:
        self.method = method
        self._programs = programs
        self._ended = ended  # The map of attachments that another one replaced.
        self._numbers = count(1)

    def attach(self, path: str, placed: Sequence[Placed], *, pid: int = 0) -> Attachment:
        """Probe these functions of the file at ``path``, in one process or in all."""
        done = Attachment(number=next(self._numbers))
        try:
            for family in CallFamily:
                # Where a record is seen, so is what is queued before and after it: it comes last.
                mine = sorted(
                    (p for p in placed if p.function.family == family),
                    key=lambda p: p.function.step == "EVENT_RECORD",
                )
                if mine and self.method is Method.PAIR:
                    self._attach_pairs(done, path, mine, pid)
                elif mine:
                    self._attach_links(done, path, mine, pid)
        except OSError as error:
            done.close()
            refused = self.method is Method.PAIR and isinstance(error, PermissionError)
            advice = f"; {syscalls.PERF_ADVICE}" if refused else ""
            raise ProbeError(f"cannot attach to {path}: {error.strerror}{advice}") from error
        return done

    def replace(self, old: Attachment) -> None:
        """Remove probes whose place others took already: no call is seen through both.

        Calls that the old ones saw begin may return unseen from now on, which programs have to
        know before it happens.
        """
        if self._ended is not None:
            place, number = old.number % ENDED_MAX, old.number
            key_bytes, value_bytes = MAPS["ended"]
            syscalls.map_update(
                self._ended,
                place.to_bytes(key_bytes, "little"),
                number.to_bytes(value_bytes, "little"),
            )
        old.close()

    def _attach_links(self, done: Attachment, path: str, placed: list[Placed], pid: int) -> None:
        family = placed[0].function.family
        for name, attach_type in PROGRAMS[self.method].items():
            returns = name == "return"
            sites = [
                (p.offset, _cookie(done, p))
                for p in placed
                if not returns or _has_return(p.function)
            ]
            if sites:
                done.links.append(
                    syscalls.attach_uprobes(
                        self._programs[f"{family}_{name}"],
                        path,
                        sites,
                        attach_type=attach_type,
                        returns=returns,
                        pid=pid,
                    )
                )

    def _attach_pairs(self, done: Attachment, path: str, placed: list[Placed], pid: int) -> None:
        for p in placed:
            if _has_return(p.function):
                self._pair(done, p, path, returns=True, pid=pid)
            self._pair(done, p, path, returns=False, pid=pid)

    def _pair(
        self, done: Attachment, placed: Placed, path: str, *, returns: bool, pid: int
    ) -> None:
        program = self._programs[f"{placed.function.family}_{'return' if returns else 'enter'}"]
        event = _open_uprobe(path, placed.offset, returns=returns, pid=pid)
        try:
            link = syscalls.attach_perf(program, event, _cookie(done, placed))
        except OSError:
            os.close(event)
            raise
        # The event stays open as long as its link.
        done.links.append(link)
        done.events.append(event)


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
