"""A small process with a copy of every link, which outlives the helper.

When the helper ends, however it ends, its probes would go at once, whatever memory lock is in the
way, and no process on the host could fork until it is released. The keeper switches the programs
off at once, removes the probes when nothing is in the way, and ends. It also watches the helper's
own changes: see stuck_changes.py.
"""

import contextlib
import json
import os
import select
import signal
import socket
import struct
import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from cotenant.agent.helper.stuck_changes import FuseConnections, StuckChange, StuckChanges
from cotenant.agent.malloc import give_back_memory
from cotenant.confine.capabilities import Capability, allow_descriptors, drop_capabilities
from cotenant.confine.seccomp import Role, refuse_calls
from cotenant.probes.attach import Attachment
from cotenant.probes.control import switch_off
from cotenant.probes.door import PATIENCE_S, Door
from cotenant.probes.memory_locks import MemoryLocks
from cotenant.probes.removals import Removals

_LOCKS, _CONTROLS, _HOLD, _RELEASE, _BEGIN, _END, _HURRY = range(7)
_REQUEST: Final = struct.Struct("<BQ16s")
_ANSWER: Final = b"done"
# In one message; the kernel takes at most 253.
_FDS_MAX: Final = 200
_DESCRIPTORS: Final = 131072
_REPORT_BYTES: Final = 65536
_LOOK_MS: Final = 50
_KEPT: Final = frozenset(
    {
        Capability.BPF,
        Capability.PERFMON,
        Capability.SYS_PTRACE,
        Capability.SETUID,
        Capability.DAC_READ_SEARCH,
    }
)


class Keeper:
    """The keeper as the helper sees it; without one, everything goes on."""

    def __init__(self) -> None:
        """Fork it: before this process has threads, or anything that it must not hold."""
        self._requests, requests = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._reports, reports = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._sending = threading.Lock()
        helper = os.pidfd_open(os.getpid())
        self.pid = os.fork()
        if not self.pid:
            try:
                _KeeperProcess(requests, reports, helper).run()
            finally:
                os._exit(0)
        os.close(helper)
        requests.close()
        reports.close()
        self._reports.setblocking(False)

    def look_with(self, locks: MemoryLocks) -> None:
        """These are the programs that look at memory locks."""
        self._send(_LOCKS, fds=locks.fds)

    def switch_with(self, controls: int) -> None:
        """This is the page with which programs are switched off."""
        self._send(_CONTROLS, fds=[controls])

    def hold(self, number: int, file: int, fds: Sequence[int]) -> None:
        """See LinkKeeper."""
        for first in range(0, len(fds), _FDS_MAX):
            self._send(_HOLD, number, fds=[file, *fds[first : first + _FDS_MAX]])

    def release(self, number: int) -> None:
        """See LinkKeeper."""
        with contextlib.suppress(OSError), self._sending:
            self._requests.send(_REQUEST.pack(_RELEASE, number, b""))
            self._requests.recv(len(_ANSWER))

    @contextlib.contextmanager
    def during(self, files: Collection[int], what: str) -> Iterator[None]:
        """See ChangeWatch."""
        self._send(_BEGIN, what=what, fds=[*files])
        try:
            yield
        finally:
            self._send(_END)

    def hurry(self) -> None:
        """Once the helper has ended, wait for nothing: it has waited long enough."""
        self._send(_HURRY)

    def died(self) -> bool:
        """Whether it has died since the last call."""
        if not self.pid or not os.waitpid(self.pid, os.WNOHANG)[0]:
            return False
        self.pid = 0
        return True

    def stuck(self) -> list[StuckChange]:
        """Changes that took long, since the last call."""
        found = []
        with contextlib.suppress(OSError):
            while data := self._reports.recv(_REPORT_BYTES):
                found.append(StuckChange(**json.loads(data)))
        return found

    def _send(self, kind: int, number: int = 0, what: str = "", fds: Sequence[int] = ()) -> None:
        request = _REQUEST.pack(kind, number, what.encode())
        with contextlib.suppress(OSError), self._sending:
            if fds:
                socket.send_fds(self._requests, [request], list(fds))
            else:
                self._requests.send(request)


class _KeeperProcess:
    """The process itself."""

    def __init__(self, requests: socket.socket, reports: socket.socket, helper: int) -> None:
        self._requests = requests
        self._reports = reports
        self._helper = helper
        self._attachments: dict[int, Attachment] = {}
        self._locks: MemoryLocks | None = None
        self._controls: int | None = None
        self._patience_s = PATIENCE_S
        self._watching = threading.Lock()
        self._confine()
        self._changes = StuckChanges(FuseConnections())
        drop_capabilities(_KEPT)
        refuse_calls(Role.HELPER)
        give_back_memory()

    def _confine(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        with contextlib.suppress(OSError):
            Path("/proc/self/comm").write_text("cotenant-keeper")
        with contextlib.suppress(OSError):  # Where the host does not allow it, it stays as it is.
            Path("/proc/self/oom_score_adj").write_text("-1000")
        kept = {2, self._requests.fileno(), self._reports.fileno(), self._helper}
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        first = 2
        for fd in sorted(kept):
            os.closerange(first, fd)
            first = fd + 1
        os.closerange(first, os.sysconf("SC_OPEN_MAX"))
        allow_descriptors(_DESCRIPTORS)

    def run(self) -> None:
        """Serve the helper until it has ended, then remove what it left."""
        poller = select.poll()
        poller.register(self._requests, select.POLLIN)
        poller.register(self._helper, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poller.poll(_LOOK_MS if self._changes.under_way else None)}
            if self._requests.fileno() in ready and not self._serve():
                poller.unregister(self._requests)
                self._switch_off()
            if self._helper in ready:
                break
            self._look()
        # What the helper sent last.
        while self._serve():
            pass
        self._switch_off()
        self._remove_all()

    def _serve(self) -> bool:
        """Take a request; false if there is none to come."""
        try:
            data, fds, _, _ = socket.recv_fds(
                self._requests, _REQUEST.size, _FDS_MAX + 1, socket.MSG_DONTWAIT
            )
        except BlockingIOError:
            return False
        except OSError:
            return False
        if len(data) != _REQUEST.size:
            return False
        kind, number, what = _REQUEST.unpack(data)
        self._do(kind, number, what.rstrip(b"\0").decode(), fds)
        return True

    def _do(self, kind: int, number: int, what: str, fds: list[int]) -> None:
        if kind == _LOCKS:
            self._locks = MemoryLocks.received(fds)
        elif kind == _CONTROLS:
            (self._controls,) = fds
        elif kind == _HOLD:
            file, *links = fds
            held = self._attachments.setdefault(number, Attachment(number, file))
            held.links += links
            if held.file != file:
                os.close(file)
        elif kind == _RELEASE:
            if number in self._attachments:
                self._attachments.pop(number).close()
            self._requests.send(_ANSWER)
        elif kind == _BEGIN:
            self._changes.begin(fds, what)
        elif kind == _END:
            self._end()
        elif kind == _HURRY:
            self._patience_s = 0

    def _look(self) -> None:
        with self._watching:
            if self._locks:
                self._changes.look(self._locks)

    def _end(self) -> None:
        with self._watching:
            stuck = self._changes.end()
        if stuck is not None:
            with contextlib.suppress(OSError):
                self._reports.send(json.dumps(asdict(stuck)).encode())

    def _switch_off(self) -> None:
        if self._controls is not None:
            switch_off(self._controls)
            os.close(self._controls)
            self._controls = None

    @contextlib.contextmanager
    def during(self, files: Collection[int], what: str) -> Iterator[None]:
        """See ChangeWatch: what it removes itself is watched, too."""
        with self._watching:
            self._changes.begin([os.dup(fd) for fd in files], what)
        try:
            yield
        finally:
            self._end()

    def _remove_all(self) -> None:
        if not self._attachments:
            return
        removals = Removals(Door(self._locks, self), self._patience_s)
        for attachment in self._attachments.values():
            removals.add(attachment)
        # It ends: when the patience is over, what is left is removed anyway.
        while not removals.finish(_LOOK_MS / 1e3):
            self._look()
