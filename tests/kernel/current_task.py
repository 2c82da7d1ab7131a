"""What a tool that takes the current task for the owner would have said, measured beside ours."""

import functools
import os
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cotenant._native import load
from cotenant.probes import syscalls
from tests.kernel.conftest import Cgroup
from tests.kernel.programs import compile_bpf

SOURCE = Path(__file__).with_name("current_task.bpf.c")
READ, WRITE, RETRANSMIT, ESTABLISHED = 1, 2, 3, 4
FROM_INIT, IN_INIT, UNFINISHED = 5, 6, 7
ATTEMPTS = 3
LINK_CREATE, ATTACH_SOCKETS = 28, 3


class CurrentTaskCounts:
    """Counts by the current task's cgroup."""

    def __init__(self, maps: Mapping[str, int]) -> None:
        self._charged = maps["charged"]
        self._issued = maps["issued"]

    def amount(self, what: int, cgroup: Cgroup) -> int:
        """Bytes or events of this kind that it charges to a cgroup."""
        keys, values = syscalls.map_items(self._charged, 16, 8)
        found = zip(
            np.frombuffer(keys, np.uint64).reshape(-1, 2).tolist(),
            np.frombuffer(values, np.uint64).tolist(),
            strict=True,
        )
        return sum(value for key, value in found if key == [what, cgroup.id])

    def total(self, what: int) -> int:
        """All of this kind."""
        keys, values = syscalls.map_items(self._charged, 16, 8)
        kinds = np.frombuffer(keys, np.uint64).reshape(-1, 2)[:, 0]
        return int(np.frombuffer(values, np.uint64)[kinds == what].sum())

    def unfinished(self) -> int:
        """How many requests were issued and not seen to complete."""
        return len(syscalls.map_items(self._issued, 8, 8)[0]) // 8 + self.total(UNFINISHED)


@contextmanager
def _loaded(directory: Path, *programs: str) -> Iterator[tuple[dict[str, int], CurrentTaskCounts]]:
    built = directory / "current_task.bpf.o"
    compile_bpf(SOURCE, built)
    loaded, maps = load(
        path=str(built),
        programs=dict.fromkeys(programs, -1),
        shared={},
        sizes={},
        constants={},
    )
    try:
        yield loaded, CurrentTaskCounts(maps)
    finally:
        for fd in (*loaded.values(), *maps.values()):
            os.close(fd)


@contextmanager
def count_by_current_task(directory: Path, *programs: str) -> Iterator[CurrentTaskCounts]:
    """Attach the comparison, and keep counting until the end of the block."""
    with _loaded(directory, *programs) as (loaded, counts):
        links = [syscalls.attach_tracepoint(fd) for fd in loaded.values()]
        try:
            yield counts
        finally:
            for fd in links:
                os.close(fd)


@contextmanager
def hidden_by_init(directory: Path, cgroup: Cgroup) -> Iterator[Callable[[], int]]:
    """How many retransmits of a cgroup's sockets happened where no tracing program runs.

    The sockets' own program runs in pid 1's interrupts, too.
    """
    with _loaded(directory, "current_switch", "current_sockets") as (loaded, counts):
        at = os.open(cgroup.path, os.O_RDONLY)
        wanted = struct.pack("IIII", loaded["current_sockets"], at, ATTACH_SOCKETS, 0)
        links = [
            syscalls.attach_tracepoint(loaded["current_switch"]),
            syscalls.bpf(LINK_CREATE, wanted, "attach to a cgroup's sockets"),
        ]

        def hidden() -> int:
            time.sleep(0.05)  # Time for pid 1 to leave, if it runs just now.
            return 0 if counts.total(FROM_INIT) else counts.total(IN_INIT)

        try:
            yield hidden
        finally:
            for fd in (*links, at):
                os.close(fd)


def again_if_hidden(test: Callable[..., None]) -> Callable[..., None]:
    """Try again where a request completed that no tracing program could see complete."""

    @functools.wraps(test)
    def attempts(**fixtures: Any) -> None:
        store: Path = fixtures.pop("store")
        for attempt in range(ATTEMPTS):
            with count_by_current_task(store.parent, "current_issue", "current_done") as counts:
                try:
                    return test(**fixtures, store=store.with_name(f"store-{attempt}"))
                except AssertionError:
                    if attempt == ATTEMPTS - 1 or not counts.unfinished():
                        raise

    return attempts
