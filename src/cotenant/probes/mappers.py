"""Which of some address spaces a probe in a file would wait for, without waiting for any of them.

Address spaces are numbers: what the kernel's iterator over locked memory calls them.
"""

import os
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Final, Self

from cotenant.probes import syscalls
from cotenant.probes.mapped import mapped_page

PROGRAMS: Final = ("file_mappers", "forking_memory")
_MAP: Final = "asked_memory"
_AT_ONCE: Final = 1000  # There is room for 1,024.
# Nobody keeps the kernel's tree of mappings from changing while it is walked: what one walk misses
# another finds, and one that notices it is made again.
_WALKS: Final = 2
_ATTEMPTS: Final = 8
_ADDRESS: Final = 0  # The key of the address where we have mapped the file.


class Mappers:
    """Asks the kernel's iterators."""

    def __init__(self, file_program: int, fork_program: int, asked: int) -> None:
        self._file_program = file_program
        self._fork_program = fork_program
        self._asked = asked
        self._asking = threading.Lock()

    @classmethod
    def loaded(cls, programs: Mapping[str, int], maps: Mapping[str, int]) -> Self | None:
        """None if this kernel has not taken the programs."""
        if not programs.keys() >= {*PROGRAMS}:
            return None
        return cls(programs["file_mappers"], programs["forking_memory"], maps[_MAP])

    def of_file(self, fd: int, spaces: Collection[int]) -> set[int]:
        """Which of these have a file mapped, as code or not; all of them if nobody can tell."""
        with mapped_page(fd) as address:
            if address is None:
                return set(spaces)
            return self._in_parts(spaces, lambda: self._walk(address))

    def forking(self, spaces: Collection[int]) -> set[int]:
        """Which of these a thread may be about to copy; all of them if nobody can tell."""
        return self._in_parts(spaces, self._find_forking)

    def _in_parts(self, spaces: Collection[int], ask: Callable[[], bool]) -> set[int]:
        """Those of which the answer is yes."""
        found: set[int] = set()
        listed = list(spaces)
        for first in range(0, len(listed), _AT_ONCE):
            part = listed[first : first + _AT_ONCE]
            try:
                with self._asking:
                    found |= self._answered(part, ask)
            except OSError:
                found.update(part)
        return found

    def _answered(self, spaces: Collection[int], ask: Callable[[], bool]) -> set[int]:
        try:
            for space in spaces:
                self._put(space, 0)
            if not ask():
                return set(spaces)
            return {space for space in spaces if self._is_yes(space)}
        finally:
            for key in (_ADDRESS, *spaces):
                syscalls.map_delete(self._asked, _bytes(key))

    def _walk(self, address: int) -> bool:
        """Whether everything that has the file mapped was seen."""
        self._put(_ADDRESS, address)
        whole = 0
        for _ in range(_ATTEMPTS):
            told = syscalls.run_iterator(self._file_program, pid=os.getpid())
            whole += told == _bytes(address)
            if whole == _WALKS:
                return True
        return False

    def _find_forking(self) -> bool:
        syscalls.run_iterator(self._fork_program)
        return True

    def _put(self, key: int, value: int) -> None:
        syscalls.map_update(self._asked, _bytes(key), _bytes(value))

    def _is_yes(self, space: int) -> bool:
        answer = syscalls.map_lookup(self._asked, _MAP, _bytes(space))
        return answer != _bytes(0)


def _bytes(number: int) -> bytes:
    return number.to_bytes(8, "little")
