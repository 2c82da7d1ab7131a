"""Finds code of a file that a process has changed in its own memory.

Tools that hook functions write a jump over their first bytes. The kernel takes the instruction
under a probe from the file: where memory has something else, a probe kills the process. So what
differs anywhere is left alone.

A page of code that was written to is no longer the file's. The kernel tells which those are, and
only there bytes are compared.
"""

import mmap
import os
import time
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from cotenant.errors import ProbeError
from cotenant.probes.attach import Placed
from cotenant.probes.mapped import mapped_page

# The longest jump that tools write: an address into r11, and a jump to it.
PATCH_BYTES: Final = 13
_BREAKPOINT: Final = 0xCC
_PRESENT_OR_SWAPPED: Final = np.uint64(3 << 62)
_OF_THE_FILE: Final = np.uint64(1 << 61)
_PAGE: Final = mmap.PAGESIZE
_PAUSES_S: Final = (0.01, 0.03)
_PAGES_MAX: Final = 1 << 20  # Of one mapping: 4 GB of code.
_EACH_MAX: Final = 8  # Mappings of one process: it has a file mapped as code once, or twice.


class TooMany(ProbeError):
    """More processes map a file than there is time to look at."""


class Code:
    """The bytes of a file that probes depend on, to be compared with what processes have."""

    def __init__(self, fd: int, placed: Iterable[Placed]) -> None:
        self._fd = fd
        self._spans = np.array(sorted({_span(p) for p in placed}), np.int64).reshape(-1, 3)
        self._pages: dict[int, bytes] = {}
        self._traced: dict[int, bytes] = {}

    def changed(self, mappings: npt.NDArray[np.void], seconds: float) -> frozenset[int]:
        """Offsets of sites that sit in changed code of any of these mappings.

        TooMany if that cannot be said in time. A breakpoint of the kernel's may come or go between
        two reads: what somebody has changed is still changed a moment later.
        """
        until = time.monotonic() + seconds
        mappings = _first_of_each(mappings)
        found = self._different(mappings, until)
        for pause_s in _PAUSES_S:
            if not found:
                break
            time.sleep(pause_s)
            self._traced.clear()
            found &= self._different(mappings, until)
        return frozenset(found)

    def _different(self, mappings: npt.NDArray[np.void], until: float) -> set[int]:
        found: set[int] = set()
        for index, mapping in enumerate(mappings):
            if time.monotonic() > until:
                raise TooMany(f"{len(mappings) - index} of {len(mappings)} mappings not looked at")
            try:
                found |= self._changed_in(mapping)
            except (FileNotFoundError, ProcessLookupError):
                continue  # It has ended: there is no memory that a probe could be in.
            except OSError:
                found.update(self._spans[:, 2].tolist())  # What it changed is unknown.
        return found

    def _changed_in(self, mapping: np.void) -> set[int]:
        """Those of one mapping of one process."""
        begin = int(mapping["offset"])
        end = begin + min(int(mapping["end"]) - int(mapping["start"]), _PAGES_MAX * _PAGE)
        low = np.maximum(self._spans[:, 0], begin)
        high = np.minimum(self._spans[:, 1], end)
        inside = low < high
        if not inside.any():
            return set()
        # A mapping may reach far beyond the file, which costs its process nothing.
        begins = int(low[inside].min()) // _PAGE
        ends = (int(high[inside].max()) - 1) // _PAGE + 1
        shift = int(mapping["start"]) - begin
        written = _written(int(mapping["pid"]), begins * _PAGE + shift, ends - begins)
        first = np.where(inside, low // _PAGE - begins, 0)
        last = np.where(inside, (high - 1) // _PAGE - begins, 0)
        inside &= written[first] | written[last]
        if not inside.any():
            return set()
        spans = zip(low[inside].tolist(), high[inside].tolist(), strict=True)
        with open(f"/proc/{int(mapping['pid'])}/mem", "rb", buffering=0) as memory:
            different = [
                self._differs(at, _read(memory.fileno(), at + shift, to - at), to - at)
                for at, to in spans
            ]
        return set(self._spans[inside, 2][different].tolist())

    def _differs(self, offset: int, memory: bytes | None, count: int) -> bool:
        """Whether these bytes are neither the file's nor breakpoints that the kernel put there."""
        ours = self._bytes(self._pages, offset, count)
        if memory is None or memory == ours:
            return False
        traced = self._bytes(self._traced, offset, count)
        if not len(memory) == len(ours) == len(traced):
            return True
        # A tracer's breakpoints may be in some processes only.
        return memory != traced and any(
            byte != expected and not byte == other == _BREAKPOINT
            for byte, expected, other in zip(memory, ours, traced, strict=True)
        )

    def _bytes(self, pages: dict[int, bytes], offset: int, count: int) -> bytes:
        """Bytes of the file, or of what a process that maps it now gets to see."""
        parts = b""
        base = offset // _PAGE * _PAGE
        for page in range(base, offset + count, _PAGE):
            if page not in pages:
                pages[page] = (
                    os.pread(self._fd, _PAGE, page)
                    if pages is self._pages
                    else _as_mapped(self._fd, page)
                )
            parts += pages[page]
        return parts[offset - base : offset - base + count]


def _first_of_each(mappings: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Not all of a process that maps the same code again and again: it would use up the time."""
    order = np.argsort(mappings["pid"], kind="stable")
    pids = mappings["pid"][order]
    rank = np.arange(len(pids)) - np.searchsorted(pids, pids)
    return mappings[np.sort(order[rank < _EACH_MAX])]


def _span(placed: Placed) -> tuple[int, int, int]:
    """From the start of the code to where neither a patch nor the probed instruction reaches."""
    start = placed.offset if placed.start is None else placed.start
    return start, max(start + PATCH_BYTES, placed.offset + placed.length), placed.offset


def _written(pid: int, start: int, pages: int) -> npt.NDArray[np.bool_]:
    """Which pages from this address on are the process's own by now."""
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as file:
        raw = os.pread(file.fileno(), pages * 8, start // _PAGE * 8)
    entries = np.zeros(pages, np.uint64)
    # What is not told counts as written: then bytes are compared.
    entries[len(raw) // 8 :] = _PRESENT_OR_SWAPPED
    entries[: len(raw) // 8] = np.frombuffer(raw[: len(raw) // 8 * 8], np.uint64)
    own = ((entries & _PRESENT_OR_SWAPPED) != 0) & ((entries & _OF_THE_FILE) == 0)
    return np.asarray(own, np.bool_)


def _read(memory: int, address: int, count: int) -> bytes | None:
    """Bytes of a process, nothing where they cannot be had; None if it is gone."""
    try:
        return os.pread(memory, count, address) or None
    except OSError:
        return b""


def _as_mapped(fd: int, page: int) -> bytes:
    """A page of a file as a new mapping of code shows it: with the breakpoints of all tracers.

    It is read through the kernel: a file that was cut short must not kill its reader.
    """
    with mapped_page(fd, mmap.PROT_READ | mmap.PROT_EXEC, page) as address:
        if address is None:
            return b""
        try:
            with open("/proc/self/mem", "rb", buffering=0) as memory:
                return os.pread(memory.fileno(), _PAGE, address)
        except OSError:
            return b""
