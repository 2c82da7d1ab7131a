"""Files mapped as code, anywhere on the host, as it happens: perf ``mmap2`` records."""

import mmap
import os
import struct
from dataclasses import dataclass
from typing import Final

from cotenant.agent.helper.shown_inodes import shown_inode
from cotenant.probes import syscalls
from cotenant.probes.cpus import online_cpus
from cotenant.probes.inodes import Inode

_PAGES: Final = 64  # Data pages of each CPU's buffer; a power of two.
_SOFTWARE: Final = 1
_DUMMY: Final = 9
_SAMPLE_TIME: Final = 1 << 2
_MMAP: Final = 1 << 8
_WATERMARK: Final = 1 << 14
_SAMPLE_ID_ALL: Final = 1 << 18
_MMAP2: Final = 1 << 23
_USE_CLOCK: Final = 1 << 25
_CLOCK_MONOTONIC: Final = 1
_RECORD_LOST: Final = 2
_RECORD_MMAP2: Final = 10


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

    @property
    def inode(self) -> Inode:
        """The file's, as this record shows it; on an overlay perhaps with the overlay's device."""
        return shown_inode(*struct.unpack_from("IIQQ", self.key))


class _Buffer:
    """The records of one CPU."""

    def __init__(self, cpu: int) -> None:
        attributes = bytearray(136)
        struct.pack_into("IIQ", attributes, 0, _SOFTWARE, len(attributes), _DUMMY)
        struct.pack_into("Q", attributes, 24, _SAMPLE_TIME)
        bits = _MMAP | _MMAP2 | _WATERMARK | _SAMPLE_ID_ALL | _USE_CLOCK
        struct.pack_into("QI", attributes, 40, bits, 1)
        struct.pack_into("I", attributes, 92, _CLOCK_MONOTONIC)
        self.fd = syscalls.perf_event_open(bytes(attributes), pid=-1, cpu=cpu)
        self._map = mmap.mmap(self.fd, (_PAGES + 1) * mmap.PAGESIZE)
        self._size = _PAGES * mmap.PAGESIZE

    def close(self) -> None:
        self._map.close()
        os.close(self.fd)

    def records(self) -> list[tuple[int, bytes]]:
        head, tail = struct.unpack_from("QQ", self._map, 1024)
        found = []
        while tail < head:
            kind, _, size = struct.unpack("IHH", self._bytes(tail, 8))
            if size < 8:
                tail = head
                break
            found.append((kind, self._bytes(tail, size)))
            tail += size
        struct.pack_into("Q", self._map, 1032, tail)
        return found

    def _bytes(self, position: int, count: int) -> bytes:
        start = position % self._size
        first = min(count, self._size - start)
        base = mmap.PAGESIZE
        data = self._map[base + start : base + start + first]
        return data + self._map[base : base + count - first]


class MmapEvents:
    """Reads the buffers of all CPUs; none where this kernel refuses them."""

    def __init__(self) -> None:
        self._buffers: list[_Buffer] = []
        self._lost = 0
        self.refused: str | None = None  # Why nothing is seen.
        try:
            for cpu in online_cpus():
                self._buffers.append(_Buffer(cpu))
        except OSError as error:
            self.close()
            self.refused = str(error.strerror)

    @property
    def fds(self) -> list[int]:
        """For poll: readable when somebody mapped something."""
        return [buffer.fd for buffer in self._buffers]

    def close(self) -> None:
        """Stop watching."""
        for buffer in self._buffers:
            buffer.close()
        self._buffers.clear()

    def take_lost(self) -> int:
        """How many the kernel had no room for, since the last time."""
        lost, self._lost = self._lost, 0
        return lost

    def read(self) -> list[MmapEvent]:
        """What was mapped since the last look."""
        found = []
        for buffer in self._buffers:
            for kind, record in buffer.records():
                if kind == _RECORD_MMAP2:
                    found.append(_parse(record))
                elif kind == _RECORD_LOST:
                    self._lost += struct.unpack_from("Q", record, 16)[0]
        return found


def _parse(record: bytes) -> MmapEvent:
    pid, _, start, length = struct.unpack_from("IIQQ", record, 8)
    when = struct.unpack_from("Q", record, len(record) - 8)[0]
    name = record[72 : len(record) - 8].split(b"\0", 1)[0]
    key = record[40:64] + struct.pack("q", hash(name))
    writable = bool(struct.unpack_from("I", record, 64)[0] & mmap.PROT_WRITE)
    return MmapEvent(pid, start, start + length, when, os.fsdecode(name), writable, key)
