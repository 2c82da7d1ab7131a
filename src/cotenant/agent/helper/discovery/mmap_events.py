"""Files mapped as code, anywhere on the host, as it happens: perf ``mmap2`` records.

Perf's buffers also get a record for each thread that begins or ends. So they wake only when half
full, and a program in the kernel wakes for each mapping of a file that is not settled. Where the
kernel refuses that program, other events wake for each mapping, and for every other thread: an
interrupt each. In a storm these are switched off, and the buffers are read every 10 ms.
"""

import fcntl
import mmap
import os
import select
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from cotenant._native import OBJECTS, Sightings, load
from cotenant.agent.helper.shown_inodes import shown_inode
from cotenant.probes import syscalls
from cotenant.probes.cpus import online_cpus
from cotenant.probes.inodes import Inode

_PAGES: Final = 64  # Data pages of each CPU's buffer; a power of two.
_BYTES: Final = _PAGES * mmap.PAGESIZE
_SOFTWARE: Final = 1
_DUMMY: Final = 9
_SAMPLE_TIME: Final = 1 << 2
_MMAP: Final = 1 << 8
_WATERMARK: Final = 1 << 14
_SAMPLE_ID_ALL: Final = 1 << 18
_MMAP2: Final = 1 << 23
_USE_CLOCK: Final = 1 << 25
_CLOCK_MONOTONIC: Final = 1
# After how many bytes a buffer wakes: where a program does that for it; and where none does, a
# record of a mapping has more than these, and one of a thread fewer.
_HALF: Final = _BYTES // 2
_SHORTEST: Final = 87
# A storm is about a thousand records a second, over so long.
_STORM_BYTES_S: Final = 80_000
_STORM_S: Final = 0.02
_STORM_EVERY_S: Final = 0.01
_ENABLE: Final = 0x2400
_DISABLE: Final = 0x2401
_PROGRAM: Final = "code_mapped"
_ENDED: Final = 1  # The last bit of a mark.


@dataclass(frozen=True, slots=True)
class MmapEvent:
    """A process has mapped a file as code, or changed the protection of such a mapping."""

    pid: int
    start: int
    end: int
    when_ns: int
    path: str
    writable: bool  # Whether it is writable, too: the process is about to change the code.
    key: bytes  # Device, inode and generation as this record shows them, and the path's hash.
    mark: int = 0  # The same, and the process's cgroups: a number for what can be settled.

    @property
    def ended(self) -> bool:
        """Whether its process had ended when this was read."""
        return bool(self.mark & _ENDED)

    @property
    def inode(self) -> Inode:
        """The file's, as this record shows it; on an overlay perhaps with the overlay's device."""
        return shown_inode(*struct.unpack_from("IIQQ", self.key))


def _open(cpu: int, wake_bytes: int) -> int:
    attributes = bytearray(136)
    struct.pack_into("IIQ", attributes, 0, _SOFTWARE, len(attributes), _DUMMY)
    struct.pack_into("Q", attributes, 24, _SAMPLE_TIME)
    bits = _MMAP | _MMAP2 | _WATERMARK | _SAMPLE_ID_ALL | _USE_CLOCK
    struct.pack_into("QI", attributes, 40, bits, wake_bytes)
    struct.pack_into("I", attributes, 92, _CLOCK_MONOTONIC)
    return syscalls.perf_event_open(bytes(attributes), pid=-1, cpu=cpu)


class _Waker:
    """A program in the kernel that says when to read: not for what is settled."""

    def __init__(self) -> None:
        nothing: dict[str, int] = {}
        path = str(OBJECTS / "sighting.bpf.o")
        programs = {_PROGRAM: -1}
        loaded, self.maps = load(path, programs, shared=nothing, sizes=nothing, constants=nothing)
        self._descriptors = [*loaded.values(), *self.maps.values()]
        self._version = 0
        try:
            self._descriptors.append(syscalls.attach_tracepoint(loaded[_PROGRAM]))
            self._try_out()
        except OSError:
            self.close()
            raise

    def _try_out(self) -> None:
        """OSError if the program does not see a mapping of our own."""
        with open("/proc/self/exe", "rb") as file:
            code = mmap.PROT_READ | mmap.PROT_EXEC
            mmap.mmap(file.fileno(), mmap.PAGESIZE, mmap.MAP_PRIVATE, code).close()
        if not select.select([self.maps["sightings"]], (), (), 0)[0]:
            raise OSError("our own mapping did not wake us")

    def unsettle(self) -> None:
        """Wake for every file again."""
        self._version += 1
        version = self._version.to_bytes(8, "little")
        syscalls.map_update(self.maps["settled_version"], bytes(4), version)

    def close(self) -> None:
        """Take the program off the kernel."""
        for fd in self._descriptors:
            os.close(fd)
        self._descriptors.clear()


class _Bells:
    """Events that wake where no program does; nobody reads their records."""

    def __init__(self) -> None:
        self.fds: list[int] = []
        self._rooms: list[mmap.mmap] = []
        self.silent = False
        self._taken, self._at = 0, time.monotonic()
        try:
            for cpu in online_cpus():
                self.fds.append(_open(cpu, _SHORTEST))
                # Read-only: new records take the place of old ones.
                size, prot = 2 * mmap.PAGESIZE, mmap.PROT_READ
                self._rooms.append(mmap.mmap(self.fds[-1], size, mmap.MAP_SHARED, prot))
        except OSError:
            self.close()
            raise

    def follow(self, taken: int) -> bool:
        """Switch off in a storm, and on after it: whether they were switched on now."""
        now = time.monotonic()
        if now - self._at < _STORM_S:
            return False
        storm = taken - self._taken > _STORM_BYTES_S * (now - self._at)
        self._taken, self._at = taken, now
        if storm == self.silent:
            return False
        self.silent = storm
        for fd in self.fds:
            fcntl.ioctl(fd, _DISABLE if storm else _ENABLE, 0)
        return not storm

    def close(self) -> None:
        """Wake no more."""
        for room in self._rooms:
            room.close()
        for fd in self.fds:
            os.close(fd)
        self._rooms.clear()
        self.fds.clear()


class MmapEvents:
    """Reads the buffers of all CPUs; none where this kernel refuses them."""

    def __init__(self) -> None:
        self._sightings = Sightings()
        self._waker: _Waker | None = None
        self._bells: _Bells | None = None
        self._buffers: list[int] = []
        self.refused: str | None = None  # Why nothing is seen.
        with suppress(OSError):  # Some kernels have no trampolines.
            self._waker = _Waker()
            maps = self._waker.maps
            self._sightings.follow(maps["sightings"], maps["settled"])
        try:
            for cpu in online_cpus():
                self._buffers.append(_open(cpu, _HALF))
                self._sightings.open(self._buffers[-1], _BYTES)
            if self._waker is None:
                self._bells = _Bells()
        except OSError as error:
            self.close()
            self.refused = str(error.strerror)

    @property
    def fds(self) -> list[int]:
        """For poll: readable when there is something to read."""
        rings = [self._waker.maps["sightings"]] if self._waker else []
        return [*self._buffers, *rings, *(self._bells.fds if self._bells else ())]

    @property
    def is_woken(self) -> bool:
        """Whether a program wakes us for mappings alone."""
        return self._waker is not None

    def close(self) -> None:
        """Stop watching."""
        if self._waker is not None:
            self._waker.close()
            self._waker = None
        if self._bells is not None:
            self._bells.close()
            self._bells = None
        self._sightings = Sightings()
        for fd in self._buffers:
            os.close(fd)
        self._buffers.clear()

    def take_lost(self) -> int:
        """How many the kernel had no room for, since the last time."""
        return self._sightings.take_lost()

    def read(self) -> list[MmapEvent]:
        """What was mapped since the last look, and is not settled."""
        found = self._sightings.read()
        if self._bells and self._bells.follow(self._sightings.taken()):
            found += self._sightings.read()  # What came before they were on again.
        return [_parse(mark, record) for mark, record in found]

    def patience_s(self) -> float:
        """Until when to read though nothing wakes."""
        return _STORM_EVERY_S if self._bells and self._bells.silent else float("inf")

    def settle(self, file: MmapEvent) -> None:
        """Drop what shows the same file, mapped by processes of the same cgroup."""
        if file.mark:
            self._sightings.settle(file.mark)

    def unsettle(self) -> None:
        """Every file is new again."""
        self._sightings.clear()
        if self._waker is not None:
            self._waker.unsettle()


def _parse(mark: int, record: bytes) -> MmapEvent:
    pid, _, start, length = struct.unpack_from("IIQQ", record, 8)
    when = struct.unpack_from("Q", record, len(record) - 8)[0]
    name = record[72 : len(record) - 8].split(b"\0", 1)[0]
    key = record[40:64] + struct.pack("q", hash(name))
    writable = bool(struct.unpack_from("I", record, 64)[0] & mmap.PROT_WRITE)
    return MmapEvent(pid, start, start + length, when, os.fsdecode(name), writable, key, mark)
