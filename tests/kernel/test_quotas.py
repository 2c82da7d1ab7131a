"""Tenants fill what all share: their neighbours miss nothing, and they are told what they lost."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cotenant.probes import tables as probed
from cotenant.probes.function import CallFamily, Library
from tests.kernel.compiler import build_client, build_library
from tests.kernel.conftest import Cgroup, Recording, record
from tests.kernel.prototypes import PROTOTYPES
from tests.kernel.test_overload import counted, fate, notes, rows_of, start, warm
from tests.kernel.test_overload import finish as ended

NOBODY = 65534
NESTED = 199
RING = ("--ring-bytes", "1048576")
FUNCTIONS = [
    each.symbol
    for each in probed.FUNCTIONS
    if each.library is Library.CUDA and each.family is CallFamily.CUDA and each.symbol in PROTOTYPES
]


@contextmanager
def delegated(cgroup: Cgroup) -> Iterator[Cgroup]:
    """A cgroup that was given to an ordinary user, as by systemd; emptied at the end."""
    for name in ("", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"):
        os.chown(cgroup.path / name, NOBODY, NOBODY)
    try:
        yield cgroup
    finally:
        (cgroup.path / "cgroup.kill").write_text("1")
        for directory, _, _ in os.walk(cgroup.path, topdown=False):
            if directory != str(cgroup.path):
                _remove(Path(directory))


def _remove(directory: Path) -> None:
    for _ in range(1000):
        try:
            directory.rmdir()
            return
        except OSError:
            os.sched_yield()


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of attackers, and a library of all functions that are probed."""
    directory = tmp_path_factory.mktemp("clients")
    build_client(directory / "roam", "roam")
    build_library(directory / "libcuda.so.1", FUNCTIONS)
    return directory


class Roamer:
    """An ordinary user who goes from cgroup to cgroup within its own, and calls as it goes."""

    def __init__(
        self,
        recording: Recording,
        home: Cgroup,
        clients: Path,
        *words: object,
        cgroups: int = NESTED,
    ) -> None:
        library = clients / "libcuda.so.1"
        self.process = home.popen(
            [clients / "roam", library, home.path, cgroups, *words], stdin=subprocess.PIPE
        )
        assert self.heard() == {"ready": 1}
        recording.wait_for(f"select 1 from sessions where libraries like '%{library}%'")

    def heard(self) -> dict[str, int]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it ended with {self.process.wait()}"
        said: dict[str, int] = json.loads(line)
        return said

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.go_on()
        assert self.process.wait(60) == 0


def within(cgroup: Cgroup) -> str:
    """A condition on containers: the cgroup and all below it."""
    return f"(cgroup_path = '/{cgroup.name}' or cgroup_path like '/{cgroup.name}/%')"


def sum_within(recording: Recording, cgroup: Cgroup, what: str, source: str) -> Any:
    """Of a tenant's GPU calls."""
    (row,) = recording.sql(
        f"select sum({what})::bigint as n from {source} join containers using (cgroup_id) "
        f"where {within(cgroup)} and family = 'cuda'"
    )
    return row["n"]


def test_cgroups_within_a_tenant_share_its_part_of_the_ring(
    cgroups: Callable[[], Cgroup], store: Path, clients: Path
) -> None:
    storm, small, before = cgroups(), cgroups(), cgroups()
    with record(store, *RING, "--budget", "off") as recording, delegated(storm):
        warm(recording, before)
        loud = Roamer(recording, storm, clients, 0, *["cuLaunchKernel"] * 50)
        loud.go_on()
        ended(start(small, "--steps", "4001", "--rate", "1000"))
        loud.go_on()
        calls = loud.heard()["calls"]
        loud.end()
    assert rows_of(recording, small) == {"rows": 4001, "weight": 4001}
    what = fate(recording, small)
    assert (what["shed"], what["lost"], what["queued"]) == (0, 0, 0)
    assert sum_within(recording, storm, "shed", "losses") > 0
    assert sum_within(recording, storm, "seen", "losses") == calls
    assert sum_within(recording, storm, "count", "totals") == calls


def test_a_tenant_of_many_cgroups_leaves_others_their_totals(
    cgroups: Callable[[], Cgroup], store: Path, clients: Path
) -> None:
    hoard, small, before = cgroups(), cgroups(), cgroups()
    with record(store, "--budget", "off", "--ucx", "absent") as recording, delegated(hoard):
        warm(recording, before)
        roamer = Roamer(recording, hoard, clients, 1, *FUNCTIONS, cgroups=260)
        roamer.go_on()
        calls = roamer.heard()["calls"]
        ended(start(small, "--steps", "8009"))
        roamer.end()
    assert counted(recording, small) == 8009
    what = fate(recording, small)
    assert (what["shed"], what["lost"], what["queued"]) == (0, 0, 0)
    assert rows_of(recording, small) == {"rows": 8009, "weight": 8009}
    assert sum_within(recording, hoard, "count", "totals") == calls
    assert notes(recording)["refused"]["totals"][f"/{hoard.name}"] > 0
    assert "imbalance" not in notes(recording)
