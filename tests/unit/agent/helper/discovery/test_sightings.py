"""Perf's records of mappings: what is settled is dropped, and nothing else."""

import mmap
import os
import struct
import subprocess
from collections.abc import Iterator

import pytest

from cotenant._native import Sightings

PAGE = mmap.PAGESIZE
SIZE = 1 << 16
LOST, EXIT, FORK, MMAP2 = 2, 4, 7, 10
ENDED = 1


class Buffer:
    """One CPU's buffer, filled as the kernel does."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("buffer")
        os.truncate(self.fd, PAGE + SIZE)
        self._map = mmap.mmap(self.fd, PAGE + SIZE)

    @property
    def positions(self) -> tuple[int, int]:
        return struct.unpack_from("QQ", self._map, 1024)

    def put(self, kind: int, body: bytes) -> None:
        head = self.positions[0]
        for byte in struct.pack("IHH", kind, 0, 8 + len(body)) + body:
            self._map[PAGE + head % SIZE] = byte
            head += 1
        struct.pack_into("Q", self._map, 1024, head)


def mapping(pid: int, path: str = "/lib/x.so", inode: int = 7, start: int = 4096) -> bytes:
    name = path.encode() + b"\0"
    name += bytes(-len(name) % 8)
    where = struct.pack("IIQQQ", pid, pid, start, 4096, 0)
    return where + struct.pack("IIQQII", 8, 1, inode, 0, 5, 2) + name + struct.pack("Q", 99)


def thread(kind: int) -> tuple[int, bytes]:
    return kind, struct.pack("IIIIQQ", 7, 7, 8, 7, 98, 98)


@pytest.fixture
def buffer() -> Iterator[Buffer]:
    made = Buffer()
    yield made
    os.close(made.fd)


@pytest.fixture
def sightings(buffer: Buffer) -> Sightings:
    made = Sightings()
    made.open(buffer.fd, SIZE)
    return made


@pytest.fixture
def gone() -> int:
    """The id of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


def test_threads_that_begin_and_end_are_no_sightings(buffer: Buffer, sightings: Sightings) -> None:
    for _ in range(499):
        buffer.put(*thread(FORK))
        buffer.put(*thread(EXIT))
    buffer.put(MMAP2, mapping(os.getpid()))
    [(_, record)] = sightings.read()
    assert record[8:] == mapping(os.getpid())
    assert sightings.read() == []
    assert buffer.positions[0] == buffer.positions[1]


def test_records_are_whole_where_the_buffer_wraps(buffer: Buffer, sightings: Sightings) -> None:
    for number in range(2003):
        buffer.put(MMAP2, mapping(os.getpid(), inode=number))
        [(_, record)] = sightings.read()
        assert record[8:] == mapping(os.getpid(), inode=number)


def test_a_settled_file_is_dropped_and_no_other(buffer: Buffer, sightings: Sightings) -> None:
    mine = os.getpid()
    buffer.put(MMAP2, mapping(mine))
    [(mark, _)] = sightings.read()
    sightings.settle(mark)
    others = [mapping(mine, path="/lib/y.so"), mapping(mine, inode=8)]
    for record in [mapping(mine), others[0], mapping(mine, start=8192), others[1]]:
        buffer.put(MMAP2, record)
    assert [record[8:] for _, record in sightings.read()] == others
    sightings.clear()
    buffer.put(MMAP2, mapping(mine))
    assert [found for found, _ in sightings.read()] == [mark]


def test_a_file_is_settled_for_its_cgroup_alone(
    buffer: Buffer, sightings: Sightings, gone: int
) -> None:
    buffer.put(MMAP2, mapping(gone))
    [(mark, _)] = sightings.read()
    assert mark & ENDED
    sightings.settle(mark)
    buffer.put(MMAP2, mapping(gone))
    buffer.put(MMAP2, mapping(os.getpid()))
    [(mark, record)] = sightings.read()
    assert record[8:] == mapping(os.getpid())
    assert not mark & ENDED


def test_what_is_settled_beyond_the_room_is_seen_again(
    buffer: Buffer, sightings: Sightings
) -> None:
    buffer.put(MMAP2, mapping(os.getpid()))
    [(mark, _)] = sightings.read()
    sightings.settle(mark)
    for number in range(1 << 16):
        sightings.settle(number << 32 | 2)
    buffer.put(MMAP2, mapping(os.getpid()))
    assert [found for found, _ in sightings.read()] == [mark]


def test_records_that_the_kernel_lost_are_counted(buffer: Buffer, sightings: Sightings) -> None:
    buffer.put(LOST, struct.pack("QQQ", 1, 211, 0))
    assert sightings.read() == []
    assert (sightings.take_lost(), sightings.take_lost()) == (211, 0)
