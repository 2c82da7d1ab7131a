"""Limits and quotas as both versions of cgroups write them."""

from pathlib import Path

import pytest

from cotenant.agent.recorder.samplers.cgroup_limits import CgroupLimits, cpu_limit, memory_limit
from cotenant.agent.recorder.samplers.throttle import Throttle
from cotenant.identity.ledger import Ledger
from cotenant.identity.walk import Mount, survey


def write(directory: Path, **files: str) -> Path:
    directory.mkdir(exist_ok=True)
    for name, text in files.items():
        (directory / name.replace("__", ".")).write_text(text)
    return directory


@pytest.mark.parametrize(
    ("files", "cpus", "memory"),
    [
        ({"cpu__max": "150000 100000\n", "memory__max": "1048576\n"}, 1.5, 1 << 20),
        ({"cpu__max": "max 100000\n", "memory__max": "max\n"}, None, None),
        ({"cpu__cfs_quota_us": "50000\n", "cpu__cfs_period_us": "100000\n"}, 0.5, None),
        ({"cpu__cfs_quota_us": "-1\n", "cpu__cfs_period_us": "100000\n"}, None, None),
        ({"memory__limit_in_bytes": "4096\n"}, None, 4096),
        ({"memory__limit_in_bytes": "9223372036854771712\n"}, None, None),
        ({}, None, None),
    ],
)
def test_a_limit_is_read_as_either_version_writes_it(
    files: dict[str, str], cpus: float | None, memory: int | None, tmp_path: Path
) -> None:
    directory = write(tmp_path / "group", **files)
    assert (cpu_limit(directory), memory_limit(directory)) == (cpus, memory)


def test_limits_are_told_when_they_change(tmp_path: Path) -> None:
    write(tmp_path / "a", cpu__max="100000 100000")
    limits = CgroupLimits(Ledger("node", "boot"), [Mount(0, (), tmp_path, "/")])
    first = limits.sample(1)
    assert first is not None
    assert first.column("cpus").to_pylist() == [1.0]
    assert [limits.sample(n) for n in range(2, 11)] == [None] * 9
    assert limits.sample(11) is None
    write(tmp_path / "a", cpu__max="300000 100000")
    changed = [table for n in range(12, 22) if (table := limits.sample(n)) is not None]
    assert [table.column("cpus").to_pylist() for table in changed] == [[3.0]]


def test_limits_that_stay_are_told_again_before_their_rows_are_too_old(tmp_path: Path) -> None:
    write(tmp_path / "a", cpu__max="100000 100000")
    limits = CgroupLimits(Ledger("node", "boot"), [Mount(0, (), tmp_path, "/")])
    told = [n for n in range(1, 1300) if limits.sample(n) is not None]
    assert told == [1, 601, 1201]


def test_a_limit_that_is_lifted_is_told_once_as_none(tmp_path: Path) -> None:
    write(tmp_path / "a", cpu__max="100000 100000", memory__max="4096")
    write(tmp_path / "b", cpu__max="max 100000", memory__max="max")
    limits = CgroupLimits(Ledger("node", "boot"), [Mount(0, (), tmp_path, "/")])

    def look() -> list[tuple[float | None, int | None]]:
        tables = [table for n in range(10) if (table := limits.sample(n)) is not None]
        rows = [row for table in tables for row in table.to_pylist()]
        return [(row["cpus"], row["memory_bytes"]) for row in rows]

    assert look() == [(1.0, 4096)]
    write(tmp_path / "a", cpu__max="max 100000")
    assert look() == [(None, 4096)]
    write(tmp_path / "a", memory__max="max")
    assert look() == [(None, None)]
    assert look() == []
    write(tmp_path / "a", memory__max="8192")
    assert look() == [(None, 8192)]


def test_a_cgroup_that_goes_away_keeps_the_limits_it_had(tmp_path: Path) -> None:
    group = write(tmp_path / "a", cpu__max="100000 100000")
    limits = CgroupLimits(Ledger("node", "boot"), [Mount(0, (), tmp_path, "/")])
    assert limits.sample(1) is not None
    (group / "cpu.max").unlink()
    group.rmdir()
    assert [limits.sample(n) for n in range(2, 22)] == [None] * 20


@pytest.mark.parametrize("name", ["throttled_usec", "throttled_time"])
def test_time_stood_still_is_what_was_added_since_the_last_look(name: str, tmp_path: Path) -> None:
    unit = 1000 if name == "throttled_usec" else 1
    group = write(tmp_path / "a", cpu__max="100000 100000", cpu__stat=f"nr_periods 1\n{name} 7\n")
    throttle = Throttle(Ledger("node", "boot"), [Mount(0, (), tmp_path, "/")])
    assert throttle.sample(1) is None
    write(group, cpu__stat=f"nr_periods 2\n{name} 30\n")
    rows = throttle.sample(2)
    assert rows is not None
    assert rows.column("duration_ns").to_pylist() == [23 * unit]
    assert throttle.sample(3) is None


def test_a_cgroup_that_goes_away_is_forgotten(tmp_path: Path) -> None:
    group = write(tmp_path / "a", cpu__max="100000 100000", cpu__stat="throttled_usec 7\n")
    throttle = Throttle(Ledger("node", "boot"), [Mount(0, (), tmp_path, "/")])
    throttle.sample(1)
    (group / "cpu.stat").unlink()
    assert throttle.sample(2) is None


def test_a_quota_that_is_set_later_is_told_with_all_that_was_lost_to_it(tmp_path: Path) -> None:
    old = write(tmp_path / "a", cpu__stat="throttled_usec 7\n")
    idle = write(tmp_path / "b", cpu__stat="throttled_usec 5\n")
    throttle = Throttle(Ledger("node", "boot"), [Mount(0, (), tmp_path, "/")])
    throttle.sample(1)
    write(old, cpu__max="100000 100000", cpu__stat="throttled_usec 20\n")
    write(idle, cpu__max="100000 100000")
    write(tmp_path / "c", cpu__max="100000 100000", cpu__stat="throttled_usec 11\n")
    tables = [table for n in range(2, 40) if (table := throttle.sample(n)) is not None]
    told = [sorted(table.column("duration_ns").to_pylist()) for table in tables]
    assert told == [[11_000, 13_000]]


def test_who_is_excluded_is_not_told_to_stand_still(tmp_path: Path) -> None:
    groups = [
        write(tmp_path / name, cpu__max="1 1", cpu__stat="throttled_usec 7\n") for name in "ab"
    ]
    mounts = [Mount(0, (), tmp_path, "/")]
    ledger = Ledger("node", "boot")
    survey(ledger, mounts)
    throttle = Throttle(ledger, mounts, exclude=["/a"])
    assert throttle.sample(1) is None
    for more, group in zip((11, 23), groups, strict=True):
        write(group, cpu__stat=f"throttled_usec {7 + more}\n")
    rows = throttle.sample(2)
    assert rows is not None
    assert rows.column("duration_ns").to_pylist() == [23_000]
