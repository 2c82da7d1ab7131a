"""What a tool that takes the current task for the owner would have said, measured beside ours."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from cotenant._native import load
from cotenant.probes import syscalls
from tests.kernel.conftest import ROOT, Cgroup

SOURCE = Path(__file__).with_name("naive.bpf.c")
READ, WRITE, RETRANSMIT, ESTABLISHED = 1, 2, 3, 4


class Naive:
    """Counts by the current task's cgroup."""

    def __init__(self, charged: int) -> None:
        self._charged = charged

    def amount(self, what: int, cgroup: Cgroup) -> int:
        """Bytes or events of this sort that it charges to a cgroup."""
        keys, values = syscalls.map_items(self._charged, 16, 8)
        found = zip(
            np.frombuffer(keys, np.uint64).reshape(-1, 2).tolist(),
            np.frombuffer(values, np.uint64).tolist(),
            strict=True,
        )
        return sum(value for key, value in found if key == [what, cgroup.id])

    def total(self, what: int) -> int:
        """All of this sort."""
        keys, values = syscalls.map_items(self._charged, 16, 8)
        sorts = np.frombuffer(keys, np.uint64).reshape(-1, 2)[:, 0]
        return int(np.frombuffer(values, np.uint64)[sorts == what].sum())


@contextmanager
def naive(directory: Path, *programs: str) -> Iterator[Naive]:
    """Attach the comparison, and keep counting until the end of the block."""
    built = directory / "naive.bpf.o"
    machine = subprocess.run(["gcc", "-dumpmachine"], capture_output=True, text=True, check=True)
    subprocess.run(
        ["clang-19", "-g", "-O2", "-target", "bpf", "-mcpu=v3", "-D__TARGET_ARCH_x86",
         f"-I{ROOT / 'bpf'}", f"-I/usr/include/{machine.stdout.strip()}",
         "-c", SOURCE, "-o", built],
        check=True,
    )  # fmt: skip
    loaded, maps = load(
        path=str(built),
        programs=dict.fromkeys(programs, -1),
        shared={},
        sizes={},
        constants={},
    )
    links = [syscalls.attach_tracepoint(fd) for fd in loaded.values()]
    try:
        yield Naive(maps["charged"])
    finally:
        for fd in (*links, *loaded.values(), *maps.values()):
            os.close(fd)
