"""What a process has mapped, and the texts in it.

Memory is read only where a page is present, so that no page fault of a tenant's making can hold us
up; text of a file is read from the file.
"""

import os
import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from cotenant.probes.roots import open_mapping

PAGE: Final = 4096
TEXT_MAX: Final = 65536
_MAPS_MAX: Final = 65536
_WINDOW: Final = 4 * TEXT_MAX  # Names of one library lie side by side.
_PRESENT: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Mapping:
    """One line of /proc/PID/maps."""

    start: int
    end: int
    offset: int
    inode: int

    @property
    def is_file(self) -> bool:
        """Whether a file is behind it."""
        return self.inode != 0


def read_maps(pid: int) -> Iterator[Mapping]:
    """What a process has mapped, in the order of addresses."""
    with open(f"/proc/{pid}/maps", "rb") as file:
        for _, line in zip(range(_MAPS_MAX), file, strict=False):
            span, _, offset, _, inode = line.split(maxsplit=5)[:5]
            start, _, end = span.partition(b"-")
            yield Mapping(int(start, 16), int(end, 16), int(offset, 16), int(inode))


def mapping_at(mappings: list[Mapping], address: int) -> Mapping | None:
    """The mapping around an address."""
    before = bisect_right(mappings, address, key=lambda mapping: mapping.start)
    mapping = mappings[before - 1] if before else None
    return mapping if mapping is not None and address < mapping.end else None


def read_texts(pid: int, mappings: list[Mapping], addresses: Iterable[int]) -> dict[int, bytes]:
    """The texts at these addresses that can be read; each file is opened once."""
    found: dict[int, bytes] = {}
    for mapping, mine in groupby(sorted(set(addresses)), lambda at: mapping_at(mappings, at)):
        try:
            if mapping is not None and mapping.is_file:
                found |= _texts_of_file(pid, mapping, mine)
            elif mapping is not None:
                found |= {at: _string(pid, at, min(TEXT_MAX, mapping.end - at)) for at in mine}
        except OSError:
            continue
    return found


def _texts_of_file(pid: int, mapping: Mapping, addresses: Iterable[int]) -> dict[int, bytes]:
    found = {}
    window, base = b"", 0
    fd = open_mapping(pid, mapping.start, mapping.end)
    try:
        for address in addresses:
            at = address - mapping.start + mapping.offset
            most = min(TEXT_MAX, mapping.end - address)
            if at + most > base + len(window) and window.find(b"\0", max(at - base, 0)) < 0:
                window, base = os.pread(fd, _WINDOW, at), at
            start = at - base
            end = window.find(b"\0", start, start + most)
            found[address] = window[start : end if end >= 0 else start + most]
    finally:
        os.close(fd)
    return found


def _string(pid: int, address: int, count: int) -> bytes:
    """Bytes up to the end of a string, page by page, as far as pages are in memory."""
    found = b""
    while len(found) < count and b"\0" not in found:
        at = address + len(found)
        part = present(pid, at, min(count - len(found), PAGE - at % PAGE))
        if not part:
            break
        found += part
    return found.split(b"\0", 1)[0]


def present(pid: int, address: int, count: int) -> bytes:
    """Bytes of one page of a process; nothing where the page is not in memory."""
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as file:
        file.seek(address // PAGE * 8)
        entry = file.read(8)
    if len(entry) < 8 or not struct.unpack("<Q", entry)[0] & _PRESENT:
        return b""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        file.seek(address)
        return file.read(count)
