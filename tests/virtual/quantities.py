"""Tenants that share a GPU, with what they truly took: on the device, and alone."""

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cotenant.query.derived.intervals import joined
from tests.virtual.device import START_NS, Gpu
from tests.virtual.store import VirtualStore

SECOND = 1_000_000_000
LENGTH = 40 * SECOND
POOL = 12  # Kernels that several tenants launch, as they share libraries.


@dataclass(frozen=True)
class Truth:
    """What a tenant took."""

    gpu_ns: int  # The union of its device intervals.
    work_ns: float
    waits: bool  # After each step.


@dataclass(frozen=True)
class Shared:
    """A store, and the truth about its tenants."""

    root: Path
    tenants: dict[str, Truth]


def _union(ran):
    starts, ends = (np.array(times, np.int64) for times in zip(*ran, strict=True))
    starts, ends = joined(starts, ends)
    return int((ends - starts).sum())


def _life(dice, process, kernels, rate, every, late):
    """Steps of a few kernels; the thread waits after every so many of them, or never."""
    step = 0
    while process.gpu.now < LENGTH:
        step += 1
        for name, blocks, work in dice.sample(kernels, dice.randrange(1, len(kernels) + 1)):
            process.launch(name, work, blocks=blocks)
        if every and step % every == 0:
            yield from process.sync()
            if dice.random() < late:
                yield from process.sleep(dice.uniform(1e5, 3e6))
        yield from process.sleep(dice.expovariate(rate / SECOND))


def _tenants(dice, count):
    """How much each is to take, and how it waits: half of them seldom, or never."""
    wanted = [dice.uniform(3e9, 8e9), dice.uniform(1e6, 8e6)]
    wanted += [10 ** dice.uniform(6.2, 9.5) for _ in range(count - 2)]
    seldom = dice.sample(range(count), count // 2)
    every = [dice.choice((0, 50, 400)) if n in seldom else 1 for n in range(count)]
    return list(zip(wanted, every, strict=True))


def _kernel(dice, name):
    """Its name, its blocks, and what it takes alone: 0.1 to 4 ms."""
    return name, 2 ** dice.randrange(3, 9), 10 ** dice.uniform(5, 6.6)


def shared(root, seed, count=10, burden=None):
    """Tenants on one GPU: half of them wait after each step."""
    dice, gpu = random.Random(seed), Gpu()
    store = VirtualStore(root)
    pool = [_kernel(dice, f"lib_{number}") for number in range(POOL)]
    made = []
    for number, (wanted, every) in enumerate(_tenants(dice, count)):
        process = gpu.process(f"tenant-{number}", burden or dice.uniform(1.0, 1.4))
        own = [_kernel(dice, f"own_{number}_{n}") for n in range(2)]
        kernels = dice.sample(pool, dice.randrange(1, 4)) + own[: dice.choice((0, 0, 1, 2))]
        mean = sum(work for *_, work in kernels) / len(kernels) * (len(kernels) + 1) / 2
        rate = min(max(wanted / mean / (LENGTH / SECOND), 0.05), 200)
        gpu.live(process, _life(dice, process, kernels, rate, every, late=0.05))
        made.append((process, every == 1))
    gpu.run(2 * LENGTH)
    gpu.settle()
    store.recording(0, ended_ns=START_NS + gpu.now)
    truth = {}
    for process, waits in made:
        if process.rows:
            store.process(process)
            alone = sum(sum(times) for times in process.true_ns.values())
            truth[process.tenant] = Truth(_union(process.ran), alone, waits)
    store.complete("cuda")
    return Shared(store.write(), truth)


@dataclass(frozen=True)
class Player:
    """What a tenant of a pair does: launches, a wait, a pause."""

    work_ns: float
    times: int = 1
    pause_ns: float = 0.0

    def life(self, dice, process, length):
        while process.gpu.now < length:
            for _ in range(self.times):
                process.launch(f"kernel_{process.number}", self.work_ns)
            yield from process.sync()
            yield from process.sleep(self.pause_ns * dice.uniform(0.5, 1.5))


def paired(root, players, slice_ns, burden=1.5, length=12 * SECOND, tenants=()):
    """A store of processes on one GPU, and each one's share by the device's own account."""
    dice, gpu = random.Random(0), Gpu(slice_ns)
    store = VirtualStore(root)
    names = tenants or [f"tenant-{n}" for n in range(len(players))]
    processes = [gpu.process(name, burden) for name in names]
    for process, player in zip(processes, players, strict=True):
        gpu.live(process, player.life(dice, process, length))
    gpu.run(2 * length)
    gpu.settle()
    store.recording(0, ended_ns=START_NS + gpu.now)
    for process in processes:
        store.process(process)
    store.complete("cuda")
    shares = dict.fromkeys(names, 0.0)
    for process in processes:
        shares[process.tenant] += gpu.share(process) / gpu.now
    return store.write(), shares
