"""Demangles C++ names. Tenants choose them, so a child process does the work.

A hostile name may demangle to gigabytes, or overrun the stack. The child has little memory and
time; a name that kills its worker stays mangled. Rows wait meanwhile, so demangling has a quota of
the recorder's time. A tenant may have as much of that as is still free, so that it leaves as much
to others, and names that are kept go first from the tenant that has most of them.
"""

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cotenant.agent.process import Process
from cotenant.agent.recorder.processes.demangler import HEAD, MESSAGE_MAX, READY
from cotenant.confine.user import RecorderUser
from cotenant.printable import printable

_LONGEST: Final = 15871  # Longer ones reach us cut.
_SECONDS: Final = 1.5  # Longer than a name is worked on.
_START_S: Final = 10.0
_SHARE: Final = 0.2  # Of the time; what is not used adds up, to at most _AT_ONCE_S.
_AT_ONCE_S: Final = 4.0  # Of all tenants: half of it for one.
_SLOW_S: Final = 0.1
_FAILURES_MAX: Final = 3  # Of one process.
_FAILED_MAX: Final = 4096  # Processes.
_KEPT_BYTES: Final = 32 << 20
_NUMBERS: Final = (1 << 32) - 1
_PROGRAM: Final = "cotenant.agent.recorder.processes.demangler"
_PACKAGES: Final = str(Path(__file__).parents[4])


class _Child:
    """Demangles one name at a time; started when first needed, unless it was before."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._ready = False
        self._asked = 0

    def ask(self, name: str) -> str | None:
        """The readable form; empty if there is none, None if it took too much of anything."""
        if self._channel is None:
            self.start(None)
        try:
            if not self._ready:
                # Its start does not count against a name.
                self._ready = self._answer(READY, _START_S) is not None
            self._asked = self._asked % _NUMBERS + 1
            self._send(HEAD.pack(self._asked, True) + name.encode())
            return self._answer(self._asked, _SECONDS)
        except OSError:
            return None

    def start(self, user: RecorderUser | None) -> None:
        """Have one ready before the first name comes: as this user, if it is not to be as we."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [theirs.fileno(), *((user.uid, user.gid) if user else ())]
        with theirs, contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                # Nothing of the site is imported, nor from wherever it was started.
                [sys.executable, "-SP", "-m", _PROGRAM, *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": _PACKAGES},
                start_new_session=True,
            )
        ours.setblocking(False)
        self._channel, self._ready = ours, False

    def close(self) -> None:
        """End the child, if there is one."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            self._process.wait()
            self._process = None

    def _send(self, message: bytes) -> None:
        if self._channel is not None:
            self._channel.send(message)

    def _answer(self, number: int, seconds: float) -> str | None:
        """The answer to this question, if it comes in time; those to earlier ones do not count."""
        deadline = time.monotonic() + seconds
        while self._channel is not None and (left := deadline - time.monotonic()) > 0:
            if not select.select([self._channel], [], [], left)[0]:
                break
            answer = self._channel.recv(MESSAGE_MAX)
            if not answer:
                break
            found, good = HEAD.unpack_from(answer)
            if found == number:
                return answer[HEAD.size :].decode("utf-8", "replace") if good else None
        return None


_child: Final = _Child()


class _Times:
    """Time that all tenants share: each may have as much as is still free."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._then = clock()
        self._used: dict[str, float] = {}  # And not made up for.

    def left(self, tenant: str) -> bool:
        """Whether a tenant has time now."""
        now = self._clock()
        part = _SHARE * (now - self._then) / max(len(self._used), 1)
        self._used = {who: rest for who, used in self._used.items() if (rest := used - part) > 0}
        self._then = now
        return self._used.get(tenant, 0.0) < _AT_ONCE_S - sum(self._used.values())

    def spend(self, tenant: str) -> float:
        """The tenant took all the time since it was asked whether it had any; how long it was."""
        took = self._clock() - self._then
        self._used[tenant] = self._used.get(tenant, 0.0) + took
        return took


@dataclass(slots=True)
class _Kept:
    """Names of one tenant, least recently used first."""

    names: dict[str, None] = field(default_factory=dict)
    bytes: int = 0


class Demangler:
    """Caches readable names, and demangles new ones within a quota of time."""

    def __init__(
        self,
        ask: Callable[[str], str | None] = _child.ask,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        # The tenant that asked, the answer, and whether the name is mangled for what it cost.
        self._found: dict[str, tuple[str, str, bool]] = {}
        self._kept: dict[str, _Kept] = {}  # By tenant.
        self._bytes = 0
        self._failures: Counter[Process] = Counter()
        self._times = _Times(clock)
        self.mangled: Counter[str] = Counter()  # How often names stayed so, by tenant.

    def readable(self, name: str, process: Process, tenant: str = "") -> str:
        """The readable form of a mangled name; any other name as it is, made printable.

        Where the tenant's quota is used up, the name stays mangled this time.
        """
        if len(name) >= _LONGEST:
            return printable(f"{name[:_LONGEST]}\N{HORIZONTAL ELLIPSIS}")
        if not (name.startswith("_Z") and name.isascii() and name.isprintable()):
            return printable(name)
        if name in self._found:
            return self._use(name, tenant)
        if self._failures[process] >= _FAILURES_MAX or not self._times.left(tenant):
            self.mangled[tenant] += 1
            return name
        found, gave_up = self._find(name, process, tenant)
        readable = printable(found or name)
        self._keep(name, readable, tenant, gave_up=gave_up)
        return readable

    def gone(self, process: Process) -> None:
        """The process ended."""
        self._failures.pop(process, None)

    def _use(self, name: str, tenant: str) -> str:
        owner, found, gave_up = self._found[name]
        names = self._kept[owner].names
        names[name] = names.pop(name)
        if gave_up:  # Rows have it mangled now, too, however long ago that was.
            self.mangled[tenant] += 1
        return found

    def _find(self, name: str, process: Process, tenant: str) -> tuple[str | None, bool]:
        """The readable form, and whether it took too much."""
        found = self._ask(name)
        took = self._times.spend(tenant)
        gave_up = found is None or (not found and took > _SLOW_S)
        if gave_up:
            self.mangled[tenant] += 1
            self._failures[process] += 1
            while len(self._failures) > _FAILED_MAX:
                del self._failures[next(iter(self._failures))]
        return found, gave_up

    def _keep(self, name: str, found: str, tenant: str, *, gave_up: bool) -> None:
        self._found[name] = tenant, found, gave_up
        mine = self._kept.setdefault(tenant, _Kept())
        mine.names[name] = None
        self._count(mine, len(name) + len(found))
        while self._bytes > _KEPT_BYTES:
            self._drop_oldest(max(self._kept, key=lambda each: self._kept[each].bytes))

    def _drop_oldest(self, tenant: str) -> None:
        mine = self._kept[tenant]
        oldest = next(iter(mine.names))
        del mine.names[oldest]
        self._count(mine, -len(oldest) - len(self._found.pop(oldest)[1]))
        if not mine.names:
            del self._kept[tenant]

    def _count(self, mine: _Kept, more: int) -> None:
        mine.bytes += more
        self._bytes += more


def start(user: RecorderUser) -> None:
    """Start the child ahead of time, while we may."""
    _child.start(user)
