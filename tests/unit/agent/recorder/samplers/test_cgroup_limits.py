"""Limits and quotas as both versions of cgroups write them."""

import os
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


def on(directory: Path) -> list[Mount]:
    return [Mount(0, (), directory, "/")]


def surveyed(directory: Path) -> Ledger:
    """A ledger that knows what is there now."""
    ledger = Ledger("node", "boot")
    survey(ledger, on(directory))
    return ledger


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
    limits = CgroupLimits(surveyed(tmp_path), on(tmp_path))
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
    limits = CgroupLimits(surveyed(tmp_path), on(tmp_path))
    told = [n for n in range(1, 1300) if limits.sample(n) is not None]
    assert told == [1, 601, 1201]


def test_a_limit_that_is_lifted_is_told_once_as_none(tmp_path: Path) -> None:
    write(tmp_path / "a", cpu__max="100000 100000", memory__max="4096")
    write(tmp_path / "b", cpu__max="max 100000", memory__max="max")
    limits = CgroupLimits(surveyed(tmp_path), on(tmp_path))

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
    limits = CgroupLimits(surveyed(tmp_path), on(tmp_path))
    assert limits.sample(1) is not None
    (group / "cpu.max").unlink()
    group.rmdir()
    assert [limits.sample(n) for n in range(2, 22)] == [None] * 20


@pytest.mark.parametrize("name", ["throttled_usec", "throttled_time"])
def test_time_stood_still_is_what_was_added_since_the_last_look(name: str, tmp_path: Path) -> None:
    unit = 1000 if name == "throttled_usec" else 1
    group = write(tmp_path / "a", cpu__max="100000 100000", cpu__stat=f"nr_periods 1\n{name} 7\n")
    throttle = Throttle(surveyed(tmp_path), on(tmp_path))
    assert throttle.sample(1) is None
    write(group, cpu__stat=f"nr_periods 2\n{name} 30\n")
    rows = throttle.sample(2)
    assert rows is not None
    assert rows.column("duration_ns").to_pylist() == [23 * unit]
    assert throttle.sample(3) is None


def test_a_cgroup_that_goes_away_is_forgotten(tmp_path: Path) -> None:
    group = write(tmp_path / "a", cpu__max="100000 100000", cpu__stat="throttled_usec 7\n")
    throttle = Throttle(surveyed(tmp_path), on(tmp_path))
    throttle.sample(1)
    (group / "cpu.stat").unlink()
    assert throttle.sample(2) is None


def test_a_quota_that_is_set_later_is_told_with_all_that_was_lost_to_it(tmp_path: Path) -> None:
    old = write(tmp_path / "a", cpu__stat="throttled_usec 7\n")
    idle = write(tmp_path / "b", cpu__stat="throttled_usec 5\n")
    ledger = surveyed(tmp_path)
    throttle = Throttle(ledger, on(tmp_path))
    throttle.sample(1)
    write(old, cpu__max="100000 100000", cpu__stat="throttled_usec 20\n")
    write(idle, cpu__max="100000 100000")
    young = write(tmp_path / "c", cpu__max="100000 100000", cpu__stat="throttled_usec 11\n")
    ledger.born(0, young.stat().st_ino, "/c", 5)
    tables = [table for n in range(2, 40) if (table := throttle.sample(n)) is not None]
    told = [sorted(table.column("duration_ns").to_pylist()) for table in tables]
    assert told == [[11_000, 13_000]]


def test_who_is_excluded_is_not_told_to_stand_still(tmp_path: Path) -> None:
    groups = [
        write(tmp_path / name, cpu__max="1 1", cpu__stat="throttled_usec 7\n") for name in "ab"
    ]
    throttle = Throttle(surveyed(tmp_path), on(tmp_path), exclude=["/a"])
    assert throttle.sample(1) is None
    for more, group in zip((11, 23), groups, strict=True):
        write(group, cpu__stat=f"throttled_usec {7 + more}\n")
    rows = throttle.sample(2)
    assert rows is not None
    assert rows.column("duration_ns").to_pylist() == [23_000]


@pytest.mark.parametrize("sampler", [CgroupLimits, Throttle])
def test_cgroups_that_are_not_told_apart_are_neither_looked_at_nor_entered(
    sampler: type[CgroupLimits | Throttle], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = write(tmp_path / "a", cpu__max="100000 100000", cpu__stat="throttled_usec 7\n")
    ledger = surveyed(tmp_path)
    for number in range(211):
        write(told / f"{number}", cpu__max="100000 100000", cpu__stat="throttled_usec 7\n")
    followed = sampler(ledger, on(tmp_path))
    before = ledger.rows()
    read: list[str] = []
    plain = Path.read_text

    def note(file: Path) -> str:
        read.append(file.parent.name)
        return plain(file)

    monkeypatch.setattr(Path, "read_text", note)
    for now in range(1, 24):
        followed.sample(now)
    assert set(read) <= {tmp_path.name, "a"}
    assert "a" in read
    assert [row["cgroup_id"] for row in ledger.rows()] == [row["cgroup_id"] for row in before]


@pytest.mark.parametrize("name", [b"\xff", rb"\xff", b"a b", "\N{SNOWMAN}".encode()])
def test_a_cgroup_of_any_name_is_found(name: bytes, tmp_path: Path) -> None:
    directory = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    write(directory, cpu__max="300000 100000")
    limits = CgroupLimits(surveyed(tmp_path), on(tmp_path)).sample(1)
    assert limits is not None
    assert limits.column("cpus").to_pylist() == [3.0]


def test_a_cgroup_is_found_where_only_a_part_of_the_hierarchy_is_mounted(tmp_path: Path) -> None:
    inside = write(tmp_path / "a", cpu__max="300000 100000")
    ledger = Ledger("node", "boot")
    ledger.born(0, inside.stat().st_ino, "/part/a")
    ledger.born(0, inside.stat().st_ino + 1, "/partly/a")
    limits = CgroupLimits(ledger, [Mount(0, (), tmp_path, "/part")]).sample(1)
    assert limits is not None
    assert limits.column("cgroup_id").to_pylist() == [ledger.cgroup_id(0, inside.stat().st_ino)]


def test_another_cgroup_at_the_path_of_one_that_is_gone_is_not_taken_for_it(tmp_path: Path) -> None:
    directory = write(tmp_path / "a", cpu__max="300000 100000")
    ledger = Ledger("node", "boot")
    ledger.born(0, directory.stat().st_ino + 1, "/a")
    assert CgroupLimits(ledger, on(tmp_path)).sample(1) is None
