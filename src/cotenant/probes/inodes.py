"""Files by the inode that a uprobe is really on.

One library in the image of two containers is one inode below two overlay mounts. ``stat`` shows
each mount's own device; the kernel's mappings show the file beneath.
"""

import ctypes
import errno
import mmap
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from cotenant.probes import syscalls
from cotenant.schema.layouts import MAPPING

_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

_AT_ONCE: Final = 16384


@dataclass(frozen=True, slots=True)
class Inode:
    """A file for as long as the host runs, whatever it is called and wherever it is mounted."""

    device: int
    number: int
    generation: int


def number_of(inode: Inode) -> int:
    """What the kernel's records of mappings show of it."""
    return inode.number


def real_inode(program: int, fd: int) -> Inode | None:
    """The inode beneath an open file; None if it cannot be mapped."""
    size = mmap.PAGESIZE
    address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_PRIVATE, fd, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        return None
    try:
        found = _mappings_of(program, os.getpid())
    finally:
        _libc.munmap(address, size)
    for mapping in found[found["start"] == address]:
        return Inode(int(mapping["device"]), int(mapping["inode"]), int(mapping["generation"]))
    return None


def code_mappings(program: int, pid: int) -> npt.NDArray[np.void]:
    """Every file that a process has mapped as code."""
    return _mappings_of(program, pid)


def _mappings_of(program: int, pid: int) -> npt.NDArray[np.void]:
    try:
        return np.frombuffer(syscalls.run_iterator(program, pid=pid), MAPPING)
    except OSError as error:
        # Before Linux commit f0d74c4da1f0 ("bpf: Parameterize task iterators.") (v6.1).
        if error.errno not in (errno.E2BIG, errno.EINVAL):
            raise
    mappings = np.frombuffer(syscalls.run_iterator(program), MAPPING)
    return np.compress(mappings["pid"] == pid, mappings)


def all_code_mappings(program: int) -> Iterator[npt.NDArray[np.void]]:
    """Those of all processes, part by part: there may be more than we have memory for."""
    for part in syscalls.iterate(program, MAPPING.itemsize * _AT_ONCE):
        yield np.frombuffer(part, MAPPING)


def mappings_of(program: int, inode: Inode) -> npt.NDArray[np.void]:
    """Where processes have this file mapped as code."""
    parts = [np.empty(0, MAPPING)]
    for mappings in all_code_mappings(program):
        same = mappings["inode"] == inode.number
        same &= mappings["device"] == inode.device
        same &= mappings["generation"] == inode.generation
        parts.append(mappings[same])
    return np.concatenate(parts)


def processes_mapping(program: int, inodes: Collection[Inode]) -> set[tuple[Inode, int]]:
    """Which processes have which of these files mapped as code."""
    wanted = set(inodes)
    numbers = np.fromiter({inode.number for inode in wanted}, np.uint64)
    found = set()
    for mappings in all_code_mappings(program) if len(numbers) else ():
        for each in mappings[np.isin(mappings["inode"], numbers)]:
            inode = Inode(int(each["device"]), int(each["inode"]), int(each["generation"]))
            if inode in wanted:
                found.add((inode, int(each["pid"])))
    return found


def writable(mappings: npt.NDArray[np.void], offsets: Collection[int]) -> set[int]:
    """Processes that may write to these places of the file; the kernel probes no such code."""
    places = np.sort(np.fromiter(offsets, np.int64))
    begins = mappings["offset"].astype(np.int64)
    ends = begins + (mappings["end"] - mappings["start"]).astype(np.int64)
    there = np.searchsorted(places, begins) < np.searchsorted(places, ends)
    return set(mappings["pid"][there & (mappings["writable"] != 0)].tolist())


def inodes_of(mappings: npt.NDArray[np.void]) -> Iterator[tuple[Inode, np.void]]:
    """Each file among these mappings once, with one of the places where it is mapped."""
    columns = [mappings[name] for name in ("device", "inode", "generation")]
    order = np.lexsort(columns)
    new = np.ones(len(mappings), np.bool_)
    if len(mappings):
        new[1:] = np.any([np.diff(column[order]) != 0 for column in columns], axis=0)
    for mapping in mappings[order[new]]:
        numbers = (int(mapping[name]) for name in ("device", "inode", "generation"))
        yield Inode(*numbers), mapping
