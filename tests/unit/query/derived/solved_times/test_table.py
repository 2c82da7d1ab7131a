"""Device times from spans alone: right where the mix varies, silent where it does not."""

import random
import statistics

import pytest

from cotenant.query.engine.session import Session
from tests.virtual.device import Gpu
from tests.virtual.store import VirtualStore

KERNELS = {f"kernel_{i}": 20_000 * 1.6**i for i in range(11)}


def _trained(root, life, tenant="train"):
    gpu = Gpu()
    process = gpu.process(tenant)
    gpu.live(process, life(process))
    gpu.run()
    store = VirtualStore(root)
    store.process(process)
    return process, store.write()


def _errors(process, root):
    """Relative error of each kernel's mean time, where it has 1 % of the time or more."""
    total = sum(map(sum, process.true_ns.values()))
    with Session(root) as session:
        rows = session.ask("select * from kernel_times").rows()
    found = {row["kernel_name"]: row["mean_ns"] for row in rows}
    return [
        abs(found[name] / statistics.mean(times) - 1)
        for name, times in process.true_ns.items()
        if sum(times) >= 0.01 * total
    ]


@pytest.mark.parametrize("run", range(5))
def test_where_the_mix_varies_times_are_within_five_percent(tmp_path, run):
    seed = random.randrange(1 << 32)
    dice = random.Random(seed)

    def life(process):
        for _ in range(601):
            for name, work in KERNELS.items():
                for _ in range(dice.randrange(4)):
                    process.launch(name, work * dice.gauss(1, 0.03))
            yield from process.sync()
            # Now and then the host is late to wake up, and the span with it.
            late = dice.random() < 0.05
            process.rows[-1]["duration_ns"] += dice.randrange(5_000_000) if late else 0
            yield from process.sleep(6_000_000)

    process, root = _trained(tmp_path / "store", life)
    assert statistics.median(_errors(process, root)) < 0.05, f"seed {seed}"


def test_the_time_of_a_copy_grows_with_its_bytes(tmp_path):
    dice = random.Random(7)

    def life(process):
        for _ in range(601):
            process.copy("HtoD", dice.randrange(1 << 20, 1 << 24))
            for _ in range(dice.randrange(3)):
                process.launch("gemm", 150_000)
            yield from process.sync()

    process, root = _trained(tmp_path / "store", life)
    with Session(root) as session:
        rows = session.ask(
            "select per_size_ns from solved_times where kernel_name = '[memcpy HtoD]' and solved"
        ).rows()
        (row,) = rows
    assert row["per_size_ns"] == pytest.approx(1 / 25, rel=0.05)
    assert max(_errors(process, root)) < 0.05


def test_where_the_mix_never_varies_nothing_is_claimed(tmp_path):
    dice = random.Random(11)

    def life(process):
        for _ in range(101):
            for name, work in KERNELS.items():
                process.launch(name, work * dice.gauss(1, 0.03))
            yield from process.sync()

    _, root = _trained(tmp_path / "store", life)
    with Session(root) as session:
        solved = session.ask("select solved, reason, rank, unknowns from solved_times").rows()
        rows = session.ask("select distinct gpu_ns_source from kernel_times").rows()
    assert rows == [{"gpu_ns_source": "waits"}]
    assert {row["solved"] for row in solved} == {False}
    assert {(row["rank"], row["unknowns"]) for row in solved} == {(2, len(KERNELS) + 1)}
    assert all("cannot be told apart" in row["reason"] for row in solved)


def test_two_kernels_that_always_come_together_are_told_from_a_third(tmp_path):
    dice = random.Random(13)

    def life(process):
        for _ in range(301):
            for _ in range(1 + dice.randrange(3)):
                process.launch("forward", 300_000)
                process.launch("backward", 500_000)
            for _ in range(dice.randrange(4)):
                process.launch("extra", 200_000)
            yield from process.sync()

    _, root = _trained(tmp_path / "store", life)
    with Session(root) as session:
        rows = session.ask("select kernel_name, solved from solved_times order by all").rows()
        extra = session.ask("select mean_ns from kernel_times where kernel_name = 'extra'").rows()
    assert [tuple(row.values()) for row in rows] == [
        ("backward", False),
        ("extra", True),
        ("forward", False),
    ]
    assert extra[0]["mean_ns"] == pytest.approx(200_000, rel=0.02)


def test_too_few_spans_are_too_few(tmp_path):
    def life(process):
        for _ in range(7):
            process.launch("gemm", 300_000)
            yield from process.sync()

    _, root = _trained(tmp_path / "store", life)
    with Session(root) as session:
        (row,) = session.ask("select solved, reason from solved_times").rows()
    assert row == {"solved": False, "reason": "only 7 spans end in a wait; 30 are needed"}


def test_a_time_that_the_application_took_itself_stands(tmp_path):
    def life(process):
        process.launch("gemm", 300_000, gpu_ns=298_000, gpu_ns_source="elapsed")
        yield from process.sync()

    _, root = _trained(tmp_path / "store", life)
    with Session(root) as session:
        (row,) = session.ask("select gpu_ns_source, gpu_ns, quality from kernel_times").rows()
    assert row == {"gpu_ns_source": "elapsed", "gpu_ns": 298_000, "quality": None}
