"""A change of probes that takes long: which process is in its way, and what can be done.

The kernel cannot give up, and no process on the host can fork until it is through. A process that
waits for a FUSE file system keeps its lock for as long as that does not answer: then its connection
is aborted. Nothing here takes a lock of a process.
"""

import contextlib
import ctypes
import os
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cotenant.probes.memory_locks import MemoryLock, MemoryLocks

# A change takes some milliseconds, with a thousand processes some hundred.
LONG_S: Final = 0.3
_CONNECTIONS: Final = ("/sys/fs/fuse/connections", "/proc/1/root/sys/fs/fuse/connections")
_FSOPEN, _FSCONFIG, _FSMOUNT = 430, 431, 432
_CREATE: Final = 6
_libc: Final = ctypes.CDLL(None, use_errno=True)


@dataclass(slots=True)
class StuckChange:
    """A change that took long, and the process that it waited for."""

    what: str  # "placed" or "removed".
    pid: int = 0  # 0 if none was found.
    comm: str = ""
    cgroup: str = ""
    aborted: list[int] = field(default_factory=list)  # FUSE connections, by number.
    took_s: float = 0.0


class FuseConnections:
    """FuseConnections to FUSE file systems, as the kernel offers them to be aborted."""

    def __init__(self) -> None:
        self._places = [*_CONNECTIONS]
        if not any(map(_is_fusectl, self._places)) and (fd := _mount_fusectl()) is not None:
            self._places.append(f"/proc/self/fd/{fd}")

    def abort(self, number: int) -> bool:
        """Abort a connection that requests wait for; false if that is not possible."""
        for place in self._places:
            directory = Path(place, str(number))
            try:
                if int((directory / "waiting").read_text()) == 0:
                    return False
                with _as_owner(directory / "abort"):
                    (directory / "abort").write_text("1")
            except (OSError, ValueError):
                continue
            return True
        return False


class StuckChanges:
    """Watches changes of probes from outside: the thread that makes one may be stuck."""

    def __init__(self, connections: FuseConnections) -> None:
        self._connections = connections
        self._files: tuple[int, ...] = ()
        self._what = ""
        self._began: float | None = None
        self._stuck: StuckChange | None = None

    @property
    def under_way(self) -> bool:
        """Whether there is something to watch."""
        return self._began is not None

    def begin(self, files: Collection[int], what: str) -> None:
        """A change begins of probes in these open files, which are closed at its end."""
        self._files, self._what, self._began = tuple(files), what, time.monotonic()

    def end(self) -> StuckChange | None:
        """It is done; what was in its way if it took long."""
        stuck, began = self._stuck, self._began
        self._stuck, self._began = None, None
        if stuck and began:
            stuck.took_s = time.monotonic() - began
        for fd in self._files:
            os.close(fd)
        self._files = ()
        return stuck

    def look(self, locks: MemoryLocks) -> None:
        """See whether it takes too long, and why."""
        if self._began is None or time.monotonic() - self._began < LONG_S:
            return
        if self._stuck is None:
            self._stuck = StuckChange(self._what)
        for space, lock in self._in_the_way(locks).items():
            self._note(lock)
            devices = locks.mappers.fuse_devices(space) if locks.mappers else ()
            for number in sorted(set(devices) - set(self._stuck.aborted)):
                if self._connections.abort(number):
                    self._stuck.aborted.append(number)

    def _in_the_way(self, locks: MemoryLocks) -> dict[int, MemoryLock]:
        found: dict[int, MemoryLock] = {}
        for fd in self._files:
            found |= locks.in_the_way(fd, set())
        return found

    def _note(self, lock: MemoryLock) -> None:
        assert self._stuck is not None
        if self._stuck.pid:
            return
        self._stuck.pid = lock.pid
        with contextlib.suppress(OSError):
            self._stuck.comm = Path(f"/proc/{lock.pid}/comm").read_text(errors="replace").strip()
            self._stuck.cgroup = _cgroup(lock.pid)


def _cgroup(pid: int) -> str:
    lines = Path(f"/proc/{pid}/cgroup").read_text(errors="replace").splitlines()
    return next((line.partition("::")[2] for line in lines if line.startswith("0::")), "")


def _is_fusectl(place: str) -> bool:
    try:
        return os.stat(place).st_dev != os.stat(f"{place}/..").st_dev
    except OSError:
        return False


def _mount_fusectl() -> int | None:
    """The connections as a file system of our own that is mounted nowhere; None if that fails."""
    if "fusectl" not in Path("/proc/filesystems").read_text().split():
        return None
    context = _libc.syscall(_FSOPEN, b"fusectl", 1)
    if context < 0:
        return None
    try:
        if _libc.syscall(_FSCONFIG, context, _CREATE, None, None, 0):
            return None
        mounted = _libc.syscall(_FSMOUNT, context, 1, 0)
    finally:
        os.close(context)
    return mounted if mounted >= 0 else None


@contextlib.contextmanager
def _as_owner(path: Path) -> Iterator[None]:
    """Files of this thread are accessed with the rights of a file's owner until the end."""
    before = _libc.setfsuid(path.stat().st_uid)
    try:
        yield
    finally:
        _libc.setfsuid(before)
