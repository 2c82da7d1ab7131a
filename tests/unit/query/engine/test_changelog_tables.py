"""What holds until it changes: memory and limits, in a window and over many cgroups."""

import pyarrow as pa
import pytest

from cotenant.query.engine.session import Session
from cotenant.query.findings.leaks import find as find_leaks
from cotenant.query.questions.loader import find
from cotenant.query.screens import activity
from cotenant.store.writer import StoreWriter
from tests.virtual.device import START_NS
from tests.virtual.store import BOOT, NODE, VirtualStore

SECOND = 1_000_000_000
MIB = 1 << 20


@pytest.fixture
def store(tmp_path):
    return VirtualStore(tmp_path / "store")


def cgroup(store, number, tenant="train", **more):
    """One of several cgroups of a tenant; its name in the store."""
    name = f"{tenant}#{number}"
    more = {"cgroup_path": f"/{name}", "hierarchy": 0} | more
    store.tenant(name, tenant=tenant, **more)
    return name


def hold(store, who, at, held, gpu="GPU-1"):
    row = {"timestamp_ns": START_NS + at * SECOND, "gpu": gpu, "bytes": held}
    store.add("gpu_memory", who, row | {"allocations": 3})


def limit(store, who, at, cpus, memory=None):
    row = {"timestamp_ns": START_NS + at * SECOND, "cpus": cpus, "memory_bytes": memory}
    store.add("limits", who, row)


def second(store, who, at):
    row = {"timestamp_ns": START_NS + at * SECOND, "family": "host", "function": "oncpu"}
    row |= {"count": 1, "sum_ns": SECOND, "max_ns": 1, "histogram": [1]}
    store.add("totals", who, row)


def ask(store, sql, from_s=None, to_s=None):
    start, end = (None if at is None else START_NS + at * SECOND for at in (from_s, to_s))
    with Session(store.root, from_ns=start, to_ns=end) as session:
        return session.ask(sql).rows()


def gpu_bytes(store, from_s, to_s, *, windowed):
    sql = activity.tenants_sql(START_NS + from_s * SECOND, START_NS + to_s * SECOND)
    rows = ask(store, sql, from_s, to_s) if windowed else ask(store, sql)
    return {row["tenant"]: row["gpu_bytes"] for row in rows}


@pytest.mark.parametrize("windowed", [True, False])
def test_memory_that_did_not_change_for_long_is_held_still(store, windowed):
    one, two = cgroup(store, 1), cgroup(store, 2)
    hold(store, one, 0, 7 * MIB)
    hold(store, one, 1, 3 * MIB, gpu="GPU-2")
    hold(store, two, 2, 5 * MIB)
    hold(store, cgroup(store, 3, "gone"), 3, 11 * MIB)
    hold(store, "gone#3", 4, 0)
    hold(store, two, 100, 13 * MIB)
    store.write()
    assert gpu_bytes(store, 50, 60, windowed=windowed) == {"train": 15 * MIB}
    assert gpu_bytes(store, 95, 105, windowed=windowed) == {"train": 23 * MIB}


@pytest.mark.parametrize("windowed", [True, False])
def test_what_an_earlier_recording_saw_is_not_held_in_a_later_one(store, windowed):
    hold(store, "train", 0, 7 * MIB)
    hold(store, "serve", 31, 5 * MIB)
    root = store.write()
    for at in (-1, 30):
        row = {"node": NODE, "boot_id": BOOT, "kernel": "6.1", "wall_offset_ns": 0}
        row |= {"attach_method": "session", "layers": "driver", "hierarchy": "0"}
        row |= {"session_id": f"at {at}", "started_ns": START_NS + at * SECOND}
        with StoreWriter(root, node=NODE, boot_id=BOOT) as writer:
            writer.replace("sessions", pa.Table.from_pylist([row]))
            writer.seal(START_NS)
    assert gpu_bytes(store, 10, 20, windowed=windowed) == {"train": 7 * MIB}
    assert gpu_bytes(store, 40, 50, windowed=windowed) == {"serve": 5 * MIB}


def test_a_window_begins_with_what_was_so_then(store):
    hold(store, "train", 0, 7 * MIB)
    hold(store, "train", 5, 3 * MIB)
    hold(store, "train", 30, 2 * MIB)
    limit(store, "train", 0, 2.0)
    limit(store, "train", 1, 3.0, 4096)
    store.write()
    told = f"(timestamp_ns - {START_NS}) // {SECOND} as second_at"
    rows = ask(store, f"select {told}, bytes from gpu_memory order by second_at", 10, 40)
    assert [tuple(row.values()) for row in rows] == [(10, 3 * MIB), (30, 2 * MIB)]
    rows = ask(store, f"select {told}, bytes from gpu_memory order by second_at", 5, 30)
    assert [tuple(row.values()) for row in rows] == [(5, 3 * MIB)]
    rows = ask(store, f"select {told}, cpus, memory_bytes from limits", 10)
    assert [tuple(row.values()) for row in rows] == [(10, 3.0, 4096)]
    assert ask(store, "select * from gpu_memory", 10, 10) == []


def test_the_memory_of_a_tenants_cgroups_is_added_up(store):
    one, two = cgroup(store, 1), cgroup(store, 2)
    hold(store, one, 0, 10 * MIB)
    hold(store, two, 1, 4 * MIB)
    hold(store, one, 2, 6 * MIB)
    hold(store, two, 13, None)
    hold(store, two, 14, 1 * MIB)
    hold(store, two, 26, None)
    store.write()
    told = f"(timestamp_ns - {START_NS}) // {SECOND} as second_at"
    sql = f"select {told}, bytes from held_memory order by second_at"
    assert [tuple(row.values()) for row in ask(store, sql)] == [
        (0, 10 * MIB),
        (1, 14 * MIB),
        (2, 10 * MIB),
        (13, None),
        (14, 7 * MIB),
        (26, None),
    ]
    shown = ("held_bytes", "most_bytes", "allocations")
    rows = ask(store, find("memory_held").render())
    assert [tuple(row[name] for name in shown) for row in rows] == [
        (None, 7 * MIB, 6),
        (7 * MIB, 10 * MIB, 6),
        (10 * MIB, 14 * MIB, 6),
    ]
    [row] = ask(store, find("memory_growth").render())
    shown = ("first_bytes", "held_bytes", "growth_bytes", "rises")
    assert tuple(row[name] for name in shown) == (10 * MIB, 7 * MIB, -3 * MIB, 1 / 3)


def test_cgroups_that_swap_memory_do_not_leak(store):
    one, two = cgroup(store, 1), cgroup(store, 2)
    for at in range(60):
        hold(store, one, at, (200 - at) * 64 * MIB)
        hold(store, two, at, (40 + at) * 64 * MIB)
    with Session(store.write()) as session:
        assert find_leaks(lambda sql: session.ask(sql).table) == []


def test_growth_beside_a_cgroup_that_does_not_change_is_a_leak(store):
    hold(store, cgroup(store, 2), 0, 1_000 * MIB)
    one = cgroup(store, 1)
    for at in range(60):
        hold(store, one, at, (40 + at) * 64 * MIB)
    with Session(store.write()) as session:
        [found] = find_leaks(lambda sql: session.ask(sql).table)
    assert "to 6,760 MiB" in found.evidence[0]


def test_memory_counts_for_as_long_as_it_was_held(store):
    one, two = cgroup(store, 1), cgroup(store, 2)
    hold(store, one, 0, 10 * MIB)
    for at in range(1, 11, 2):
        hold(store, two, at, 90 * MIB, gpu="GPU-2")
        hold(store, two, at + 1, 0, gpu="GPU-2")
    second(store, one, 1000)
    store.write()
    [row] = ask(store, find("rightsize").render())
    names = ("gpu_bytes_p50", "gpu_bytes_p99", "gpu_bytes_peak")
    assert tuple(row[name] for name in names) == (10 * MIB, 10 * MIB, 100 * MIB)


def limits_of(store):
    rows = ask(store, find("rightsize").render())
    return {row["tenant"]: (row["cpus_limit"], row["memory_limit_bytes"]) for row in rows}


def test_limits_are_those_of_the_outermost_cgroups_that_are_there(store):
    pod = cgroup(store, 1, cgroup_path="/pod")
    inner = [cgroup(store, n, cgroup_path=f"/pod/{n}") for n in (2, 3)]
    beside = cgroup(store, 4, cgroup_path="/pod-b")
    ended = cgroup(store, 5, cgroup_path="/old", removed_ns=START_NS + 4 * SECOND)
    later = cgroup(store, 6, cgroup_path="/late", removed_ns=START_NS + 99 * SECOND)
    limit(store, pod, 1, 4.0)
    for who in inner:
        limit(store, who, 1, 2.0, 1000)
    limit(store, beside, 1, 1.0, 500)
    limit(store, ended, 1, 8.0, 8000)
    limit(store, later, 1, 16.0)
    for at in (1, 7):
        second(store, pod, at)
    store.write()
    assert limits_of(store) == {"train": (21.0, 2500)}


def test_a_limit_that_was_lifted_is_none_and_one_of_a_finished_tenant_its_last(store):
    limit(store, cgroup(store, 1, "free"), 1, 4.0, 1000)
    limit(store, "free#1", 2, None, None)
    for number, at in ((2, 3), (3, 5)):
        who = cgroup(store, number, "done", removed_ns=START_NS + at * SECOND)
        limit(store, who, 1, number * 1.0, number * 1000)
    for who in ("free#1", "done#2", "done#3"):
        for at in (1, 2):
            second(store, who, at)
    second(store, "free#1", 7)
    store.write()
    assert limits_of(store) == {"free": (None, None), "done": (3.0, 3000)}
