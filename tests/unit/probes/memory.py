"""Memory locks of invented processes; the address space of process 7 is 1007."""

from collections.abc import Iterator

import numpy as np

from cotenant.probes.code_mappings import CodeMappings
from cotenant.probes.memory_locks import MemoryLocks
from cotenant.schema.layouts import MEMORY_LOCK

MEMORY = 1000
READ, WRITE = 1, 2
PROGRAM = 5
FD = 8


class Looks:
    """What each look finds: a row for each locked process."""

    def __init__(self) -> None:
        self.pids: set[int] = {7, 11, 13}
        self.locked: dict[int, tuple[int, int]] = {}  # By pid: state and owner.
        self.forking: set[int] = set()
        self.script: Iterator[dict[int, tuple[int, int]]] = iter(())  # Of the looks to come.
        self.looks = 0

    def run_iterator(self, program: int, pid: int = 0) -> bytes:
        assert program == PROGRAM
        self.looks += 1
        self.locked = next(self.script, self.locked)
        pids = sorted(self.pids | self.locked.keys())
        found = np.zeros(len(pids), MEMORY_LOCK)
        found["pid"] = pids
        found["memory"] = found["pid"] + MEMORY
        found["state"] = [self.locked.get(pid, (0, 0))[0] for pid in pids]
        found["owner"] = [self.locked.get(pid, (0, 0))[1] for pid in pids]
        found["forking"] = [pid in self.forking and pid in self.locked for pid in pids]
        return found.tobytes()


class Mapped:
    """Processes that have the file mapped."""

    fds = (1, 2, 3)

    def __init__(self, *pids: int) -> None:
        self.pids = set(pids)

    def of_file(self, fd: int) -> set[int]:
        assert fd == FD
        return {pid + MEMORY for pid in self.pids}

    def fuse_devices(self, space: int) -> set[int]:
        return set()


def locks_of(*mapped: int) -> MemoryLocks:
    """Locks where these processes have the file mapped."""
    return MemoryLocks(PROGRAM, Mapped(*mapped))  # type: ignore[arg-type]


def no_code() -> CodeMappings:
    """For what asks about no process."""
    return CodeMappings(-1, MemoryLocks(-1, None))
