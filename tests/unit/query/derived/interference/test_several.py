"""What each of several aggressors cost a victim, against the device's own account."""

import random

import numpy as np
import pytest

from cotenant.query.derived.interference.costs import costs
from cotenant.query.derived.intervals import Intervals
from cotenant.query.engine.session import Session
from tests.virtual.device import START_NS, Gpu
from tests.virtual.store import VirtualStore

MS = 1_000_000
LENGTH = 40_000 * MS


def _victim(dice, process):
    while process.gpu.now < LENGTH:
        for _ in range(3):
            process.launch("step", 1.5 * MS)
        yield from process.sync()
        yield from process.sleep(dice.expovariate(1 / (2 * MS)))


def _bursts(dice, process, mean):
    while process.gpu.now < LENGTH:
        yield from process.sleep(dice.expovariate(1 / mean))
        stop = process.gpu.now + dice.expovariate(1 / mean)
        while process.gpu.now < stop:
            process.launch(f"burst_{process.number}", 3 * MS)
            yield from process.sync()


def _ran(process):
    starts, ends = (np.array(times, float) for times in zip(*sorted(process.ran), strict=True))
    return Intervals.of(starts, ends, 0.0, 2.0 * LENGTH)


@pytest.mark.parametrize("burdens", [{"b": 1.5, "c": 2.0}, {"b": 1.3, "c": 1.6, "d": 2.2}])
def test_each_part_is_what_the_device_took_and_all_are_the_whole(tmp_path, burdens):
    dice, gpu, store = random.Random(5), Gpu(), VirtualStore(tmp_path / "store")
    victim = gpu.process("a", 1.0)
    others = {name: gpu.process(name, burden) for name, burden in burdens.items()}
    gpu.live(victim, _victim(dice, victim))
    for name, process in others.items():
        gpu.live(process, _bursts(dice, process, 150 * MS if name == "b" else 400 * MS))
    gpu.run(2 * LENGTH)
    gpu.settle()
    store.recording(0, ended_ns=START_NS + gpu.now)
    for process in (victim, *others.values()):
        store.process(process)
    store.complete("cuda")
    with Session(store.write()) as session:
        rows = session.ask("select * from interference where victim = 'a'").rows()
    found = {row["aggressor"]: row["cost_ns"] for row in rows}
    true = costs(_ran(victim), [(_ran(others[name]), burdens[name]) for name in burdens])
    whole = _ran(victim).total - sum(map(sum, victim.true_ns.values()))
    assert sum(true) == pytest.approx(whole, rel=0.01)
    assert found == pytest.approx(dict(zip(burdens, true, strict=True)), rel=0.15)
    assert sum(found.values()) == pytest.approx(whole, rel=0.15)


def test_processes_of_one_aggressor_cost_what_they_cost_together(tmp_path):
    dice, gpu, store = random.Random(7), Gpu(), VirtualStore(tmp_path / "store")
    victim = gpu.process("a", 1.0)
    both = [gpu.process("b", 2.0) for _ in range(2)]
    gpu.live(victim, _victim(dice, victim))
    for process in both:
        gpu.live(process, _bursts(dice, process, 200 * MS))
    gpu.run(2 * LENGTH)
    gpu.settle()
    store.recording(0, ended_ns=START_NS + gpu.now)
    for process in (victim, *both):
        store.process(process)
    store.complete("cuda")
    with Session(store.write()) as session:
        (row,) = session.ask("select * from interference where victim = 'a'").rows()
    whole = _ran(victim).total - sum(map(sum, victim.true_ns.values()))
    assert row["cost_ns"] == pytest.approx(whole, rel=0.15)
