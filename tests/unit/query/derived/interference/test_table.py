"""Who slows whom: the truth of the device model against what can be observed."""

import random

import pytest

from cotenant.query.derived.interference.table import compute
from cotenant.query.engine.session import Session
from tests.virtual.device import Gpu
from tests.virtual.store import VirtualStore


def _shared_gpu(root, seed, burden, *, varied=False, third=False):
    """Tenants a and b on one GPU; b slows a by ``burden``, c nobody."""
    dice, gpu = random.Random(seed), Gpu()
    store = VirtualStore(root)
    names = ("a", "b", "c") if third else ("a", "b")
    a, *others = (gpu.process(name, burden if name == "b" else 1.0) for name in names)

    def stepping():
        for _ in range(701):
            for kernel in range(5):
                for _ in range(dice.randrange(4) if varied else 1):
                    a.launch(f"kernel_{kernel}", (kernel + 1) * 2e5 * dice.gauss(1, 0.03))
            a.launch("last", 1e5)
            yield from a.sync()
            yield from a.sleep(dice.expovariate(1e-6))
        a.done = True

    def coming_and_going(process):
        while not a.done:
            yield from process.sleep(dice.expovariate(1 / 80e6))
            stop = gpu.now + dice.expovariate(1 / 80e6)
            while gpu.now < stop:
                process.launch("burst", dice.uniform(1e6, 3e6))
                yield from process.sync()

    gpu.live(a, stepping())
    for process in others:
        gpu.live(process, coming_and_going(process))
    gpu.run()
    for process in (a, *others):
        store.process(process)
    return store.write()


def _ask(root, sql, **options):
    with Session(root, **options) as session:
        return session.ask(sql).rows()


def test_the_table_has_a_row_for_each_pair_and_says_which_way(tmp_path):
    root = _shared_gpu(tmp_path / "store", 5, 1.6)
    rows = _ask(root, "select * from interference order by victim")
    assert list(rows[0]) == [
        "gpu", "victim", "aggressor", "slowdown", "ci_low", "ci_high", "p", "samples", "cause",
        "window_start_ns", "window_end_ns", "node", "evidence", "cost_ns",
    ]  # fmt: skip
    first, second = rows
    assert (first["victim"], first["aggressor"], first["cause"]) == ("a", "b", "time slicing")
    assert first["ci_low"] <= 1.6 <= first["ci_high"]
    assert (first["p"] <= 0.05, first["evidence"]) == (True, "evidence")
    # The device model lets a burden no one: b's work is not slowed by a.
    assert (second["victim"], second["cause"] in ("no evidence", "too few samples")) == ("b", True)


def test_where_no_step_is_like_another_solved_times_stand_in(tmp_path):
    root = _shared_gpu(tmp_path / "store", 7, 1.5, varied=True)
    (row,) = _ask(root, "select * from interference where victim = 'a'")
    assert row["cause"] == "time slicing"
    assert row["slowdown"] == pytest.approx(1.5, rel=0.05)


def test_a_victim_is_read_once_for_all_that_it_is_held_against(tmp_path):
    root = _shared_gpu(tmp_path / "store", 5, 1.6, varied=True, third=True)
    asked = []
    with Session(root) as session:

        def ask(sql):
            asked.append(sql)
            return session.ask(sql, rows=5_000_000).table

        assert len(compute(ask)) == 6
    of_a = [sql for sql in asked if "span_mixes" in sql and "'a'" in sql]
    assert len(of_a) == 1


def test_a_third_tenant_is_not_blamed_for_the_second(tmp_path):
    root = _shared_gpu(tmp_path / "store", 11, 1.7, third=True)
    rows = _ask(root, "select * from interference where victim = 'a' order by aggressor")
    assert [(row["aggressor"], row["cause"]) for row in rows] == [
        ("b", "time slicing"),
        ("c", "no evidence"),
    ]


def test_a_tenants_own_session_still_learns_who_slows_it(tmp_path):
    root = _shared_gpu(tmp_path / "store", 13, 1.6)
    rows = _ask(root, "select victim, aggressor from interference", tenant="a")
    assert rows == [{"victim": "a", "aggressor": "b"}]


def test_work_that_nothing_proves_done_still_counts_as_activity(tmp_path):
    store = VirtualStore(tmp_path / "store")
    for name in ("a", "b"):
        gpu = Gpu()
        process = gpu.process(name)
        process.launch("gemm", 1e6)
        store.process(process)
    rows = _ask(store.write(), "select victim, cause from interference order by victim")
    assert rows == [
        {"victim": "a", "cause": "too few samples"},
        {"victim": "b", "cause": "too few samples"},
    ]


def test_tenants_on_two_gpus_are_no_pair(tmp_path):
    store = VirtualStore(tmp_path / "store")
    for place, name in enumerate(("a", "b")):
        gpu = Gpu()
        process = gpu.process(name)
        process.launch("gemm", 1e6)
        gpu.live(process, process.sync())
        gpu.run()
        store.process(process, gpu=f"GPU-{place}")
    assert _ask(store.write(), "select * from interference") == []


def test_waits_for_a_cpu_are_the_cause_where_they_are_most_of_the_loss(tmp_path):
    dice, gpu = random.Random(17), Gpu()
    a, b = gpu.process("a"), gpu.process("b")
    store = VirtualStore(tmp_path / "store")
    busy = []

    def stepping():
        for _ in range(701):
            a.launch("step", 2e6 * dice.gauss(1, 0.03))
            yield from a.sync()
            # While b is busy, a's thread wakes up late: it has no CPU.
            if busy and busy[-1][1] is None:
                row = a.rows[-1]
                late = int(dice.uniform(1e6, 2e6))
                wait = {"timestamp_ns": row["timestamp_ns"] + row["duration_ns"] - 1}
                wait |= {"op": "runqueue", "duration_ns": late, "cpu": 0, "pid": a.pid}
                store.add("host_events", "a", wait | {"attribution": "task"})
                row["duration_ns"] += late
                yield from a.sleep(late)
        a.done = True

    def coming_and_going():
        while not a.done:
            yield from b.sleep(dice.expovariate(1 / 80e6))
            busy.append([gpu.now, None])
            b.launch("burst", dice.uniform(4e7, 1e8))
            yield from b.sync()
            busy[-1][1] = gpu.now

    gpu.live(a, stepping())
    gpu.live(b, coming_and_going())
    gpu.run()
    store.process(a)
    store.process(b)
    (row,) = _ask(store.write(), "select cause from interference where victim = 'a'")
    assert row == {"cause": "cpu"}


@pytest.mark.parametrize("seed", [0, 3, 6, 7])
def test_the_gpu_is_the_cause_though_a_third_tenant_loads_the_cpu(tmp_path, seed):
    """B slows a to 1.3 times; both have rare long waits for a CPU, whoever is on the GPU."""
    dice, gpu = random.Random(seed), Gpu()
    a, b = gpu.process("a"), gpu.process("b", 1.3)
    store = VirtualStore(tmp_path / "store")

    def stepping():
        for _ in range(901):
            a.launch("step", 2e6 * dice.gauss(1, 0.03))
            yield from a.sync()
            row = a.rows[-1]
            if dice.random() < row["duration_ns"] / 1e7:
                late = int(min(dice.paretovariate(1.1) * 3e6, 3e8))
                wait = {"timestamp_ns": row["timestamp_ns"] + row["duration_ns"] - 1}
                wait |= {"op": "runqueue", "duration_ns": late, "cpu": 0, "pid": a.pid}
                store.add("host_events", "a", wait | {"attribution": "task"})
                row["duration_ns"] += late
                yield from a.sleep(late)
        a.done = True

    def coming_and_going():
        while not a.done:
            yield from b.sleep(dice.expovariate(1 / 80e6))
            b.launch("burst", dice.uniform(4e7, 1e8))
            yield from b.sync()

    gpu.live(a, stepping())
    gpu.live(b, coming_and_going())
    gpu.run()
    store.process(a)
    store.process(b)
    (row,) = _ask(store.write(), "select cause from interference where victim = 'a'")
    assert row == {"cause": "time slicing"}
