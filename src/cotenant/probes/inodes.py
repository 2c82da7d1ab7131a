"""Files by the inode that a uprobe is really on.

One library in the image of two containers is one inode below two overlay mounts. ``stat`` shows
each mount's own device; the kernel's mappings show the file beneath.
"""

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from cotenant.probes.code_mappings import CodeMappings, mappings_of_process
from cotenant.probes.mapped import mapped_page
from cotenant.schema.layouts import MAPPING


@dataclass(frozen=True, slots=True)
class Inode:
    """A file for as long as the host runs, whatever it is called and wherever it is mounted."""

    device: int
    number: int
    generation: int

    @classmethod
    def of(cls, mapping: np.void) -> Self:
        """The file of a mapping, as the kernel's iterators tell it."""
        return cls(int(mapping["device"]), int(mapping["inode"]), int(mapping["generation"]))


def number_of(inode: Inode) -> int:
    """What the kernel's records of mappings show of it."""
    return inode.number


def real_inode(program: int, fd: int) -> Inode | None:
    """The inode beneath an open file; None if it cannot be mapped."""
    with mapped_page(fd) as address:
        if address is None:
            return None
        found = mappings_of_process(program, os.getpid())
    for mapping in found[found["start"] == address]:
        return Inode.of(mapping)
    return None


def mappings_of(code: CodeMappings, inode: Inode, fd: int) -> npt.NDArray[np.void]:
    """Where processes have this open file mapped as code.

    HeldUp if one that has it mapped cannot be asked where.
    """
    parts = [np.empty(0, MAPPING)]
    for mappings in code.of_file(fd):
        same = mappings["inode"] == inode.number
        same &= mappings["device"] == inode.device
        same &= mappings["generation"] == inode.generation
        parts.append(mappings[same])
    return np.concatenate(parts)


def processes_mapping(code: CodeMappings, inodes: Collection[Inode]) -> set[tuple[Inode, int]]:
    """Which processes have which of these files mapped as code."""
    wanted = set(inodes)
    numbers = np.fromiter({inode.number for inode in wanted}, np.uint64)
    found = set()
    for mappings in code.everywhere() if len(numbers) else ():
        for each in mappings[np.isin(mappings["inode"], numbers)]:
            inode = Inode.of(each)
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
        yield Inode.of(mapping), mapping
