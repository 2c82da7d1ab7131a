"""Who has a file mapped, and which file systems' files an address space has, without any lock.

Address spaces are numbers: what the kernel's iterator over memory locks calls them.
"""

import os
import threading
from collections.abc import Mapping
from typing import Final, Self

import numpy as np

from cotenant.probes import syscalls
from cotenant.probes.mapped import mapped_page

PROGRAMS: Final = ("file_mappers", "fuse_mapped")
ANSWERS: Final = "answers"
# The kernel's tree of mappings may change while it is walked: what one walk misses another finds,
# and one that notices it is made again.
_WALKS: Final = 2
_ATTEMPTS: Final = 8
_ASKED: Final = bytes(8)  # The key of what is asked about.
_MINOR_BITS: Final = 20


class Mappers:
    """Asks the kernel's iterators, one question at a time."""

    def __init__(self, file_program: int, fuse_program: int, answers: int) -> None:
        self.fds = (file_program, fuse_program, answers)
        self._file_program, self._fuse_program, self._answers = self.fds
        self._asking = threading.Lock()

    @classmethod
    def loaded(cls, programs: Mapping[str, int], maps: Mapping[str, int]) -> Self | None:
        """None if this kernel has not taken the programs."""
        if not programs.keys() >= {*PROGRAMS}:
            return None
        file_program, fuse_program = (programs[name] for name in PROGRAMS)
        return cls(file_program, fuse_program, maps[ANSWERS])

    def of_file(self, fd: int) -> set[int] | None:
        """Address spaces that have a file mapped, as code or not; None if that cannot be told."""
        with mapped_page(fd, shared=True) as address, self._asking:
            if address is None:
                return None
            try:
                self._ask(address)
                whole = self._walk(address)
                found = self._take()
            except OSError:
                return None
        return found if whole else None

    def fuse_devices(self, space: int) -> set[int]:
        """Minor numbers of FUSE file systems of which an address space has files mapped."""
        with self._asking:
            try:
                self._ask(space)
                syscalls.run_iterator(self._fuse_program)
                devices = self._take()
            except OSError:
                return set()
        return {device & ((1 << _MINOR_BITS) - 1) for device in devices}

    def _walk(self, address: int) -> bool:
        """Whether everything that has the file mapped was seen."""
        whole = 0
        for _ in range(_ATTEMPTS):
            written = syscalls.run_iterator(self._file_program, pid=os.getpid())
            whole += written == address.to_bytes(8, "little")
            if whole == _WALKS:
                return True
        return False

    def _ask(self, about: int) -> None:
        syscalls.map_update(self._answers, _ASKED, about.to_bytes(8, "little"))

    def _take(self) -> set[int]:
        keys, _ = syscalls.map_items(self._answers, 8, 8, take=True)
        return set(np.frombuffer(keys, np.uint64).tolist()) - {0}
