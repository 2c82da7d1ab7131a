"""Two tenants of one GPU on a host that is late: threads are woken, and have to wait for a CPU."""

import random

from tests.virtual.device import Gpu
from tests.virtual.store import VirtualStore

_RECORDED_NS = 30_000  # A shorter wait for a CPU is no row.


def _late(dice, *, busy):
    """From the end of the work to the next instruction of the thread that waited for it."""
    late = dice.expovariate(1 / (300e3 if busy else 30e3))
    if dice.random() < (0.06 if busy else 0.02):
        late += dice.uniform(1e6, 2e7) if busy else dice.uniform(5e5, 2e6)
    return int(late)


def _synced(store, process, late):
    """Wait for the stream, and come back so late."""
    yield from process.sync()
    row = process.rows[-1]
    if late > _RECORDED_NS:
        wait = {"timestamp_ns": row["timestamp_ns"] + row["duration_ns"], "op": "runqueue"}
        wait |= {"duration_ns": late, "cpu": 0, "pid": process.pid, "attribution": "task"}
        store.add("host_events", process.tenant, wait)
    row["duration_ns"] += late


def late_host(root, seed):
    """A store in which ``b`` slows ``a``, by which factor, and what ``a`` lost in all.

    Every other host is busy.
    """
    dice, gpu, store = random.Random(seed), Gpu(), VirtualStore(root)
    factor, busy, varied = dice.uniform(1.15, 2.6), seed % 2 == 0, dice.random() < 0.5
    a, b = gpu.process("a"), gpu.process("b", factor)
    kernels = [dice.uniform(1.5e5, 1.5e6) for _ in range(dice.randrange(2, 6))]
    lost = 0.0
    noise, mean = dice.uniform(0.01, 0.05), dice.uniform(50e6, 200e6)

    def stepping():
        nonlocal lost
        for _ in range(901):
            began, alone = gpu.now, 1e5
            for kernel, work in enumerate(kernels):
                for _ in range(dice.randrange(4) if varied else 1):
                    alone += (took := work * dice.gauss(1, noise))
                    a.launch(f"kernel_{kernel}", took)
            a.launch("last", 1e5)
            late = _late(dice, busy=busy)
            yield from _synced(store, a, late)
            lost += gpu.now - began - alone
            yield from a.sleep(late + dice.expovariate(1e-6))
        a.done = True

    def bursts():
        while not a.done:
            yield from b.sleep(dice.expovariate(1 / mean))
            stop = gpu.now + dice.expovariate(1 / mean)
            while gpu.now < stop:
                b.launch("burst", dice.uniform(1e6, 4e6))
                late = _late(dice, busy=busy)
                yield from _synced(store, b, late)
                yield from b.sleep(late + 20_000)

    gpu.live(a, stepping())
    gpu.live(b, bursts())
    gpu.run()
    for process in (a, b):
        store.process(process)
    return store.write(), factor, lost
