"""CUDA calls on the running kernel, compared with what the client says it did."""

import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernel.conftest import SIM, Cgroup, Recording, record, sim_environment, truth

STEPS = 211  # Prime: batching or sampling cannot land on it by accident.

WORKLOAD = SIM / "workload"
# What the client logs and we record as rows.
OPERATIONS = ("launch", "memcpy", "memset", "alloc", "free", "sync")


def run(cgroup: Cgroup, log: Path, driver: str, *options: str) -> None:
    """A workload in a cgroup, from start to end."""
    environment = sim_environment(log, driver)
    process = cgroup.popen([WORKLOAD, *options], env=environment, stderr=subprocess.PIPE)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


def warm(recording: Recording, cgroup: Cgroup, log: Path, driver: str, api: str) -> None:
    """Run until a run is recorded whole: a pair of perf events per function takes its time."""
    for _ in range(60):
        run(cgroup, log, driver, "--api", api, "--steps", "3")
        calls = truth(log)
        made = sum(call["op"] in OPERATIONS for call in calls)
        count = f"from cuda_events where pid = {calls[0]['pid']} and op in {OPERATIONS}"
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            if recording.sql(f"select count(*) as n {count}") == [{"n": made}]:
                return
        log.unlink()
    raise AssertionError("never recorded whole")


@pytest.mark.parametrize(
    ("attach", "drivers"),
    [
        ("session", ("framed", "checked", "tabled")),
        ("multi", ("framed", "checked", "tabled")),
        pytest.param("pair", ("tabled",), marks=pytest.mark.leaves_slowly),
    ],
)
def test_every_call_is_recorded_once_in_its_cgroup(
    attach: str,
    drivers: tuple[str, ...],
    cgroups: Callable[[], Cgroup],
    store: Path,
    tmp_path: Path,
) -> None:
    tenants = {(d, api): cgroups() for d in drivers for api in ("driver", "runtime12")}
    with record(store, "--attach", attach) as recording:
        for (driver, api), cgroup in tenants.items():
            log = tmp_path / f"{driver}.{api}"
            warm(recording, cgroup, log.with_suffix(".warm"), driver, api)
            run(cgroup, log, driver, "--api", api, "--steps", str(STEPS), "--seed", "7")
    # The kernel takes a minute to remove what no longer fires; nobody has to wait for it.
    assert ("the kernel goes on removing" in recording.errors.read_text()) == (attach == "pair")
    for (driver, api), cgroup in tenants.items():
        calls = truth(tmp_path / f"{driver}.{api}")
        pid = calls[0]["pid"]
        expected = Counter(
            (c["op"], c.get("bytes"), tuple(c.get("grid", ())), tuple(c.get("block", ())))
            for c in calls
            if c["op"] in OPERATIONS
        )
        rows = recording.sql(
            "select e.*, c.cgroup_path from cuda_events e join containers c using (cgroup_id) "
            f"where pid = {pid} and op in {OPERATIONS}"
        )
        assert {row["cgroup_path"] for row in rows} == {f"/{cgroup.name}"}
        recorded = Counter(
            (
                row["op"],
                row["bytes"],
                (row["grid_x"], row["grid_y"], row["grid_z"]) if row["grid_x"] else (),
                (row["block_x"], row["block_y"], row["block_z"]) if row["block_x"] else (),
            )
            for row in rows
        )
        assert recorded == expected
