"""Two tenants on one device: a victim that steps, and a neighbour that comes and goes."""

import random

import numpy as np

from cotenant.query.derived.interference.slowdown import Samples
from cotenant.query.derived.intervals import Intervals
from tests.virtual.device import Gpu

STEPS = 1_201


def _steps(dice, gpu, process, spans, noise):
    """Steps of two kinds, each a few kernels and a wait; the host is late now and then."""
    kinds = [[dice.uniform(2e5, 2e6) for _ in range(dice.randrange(2, 5))] for _ in range(2)]
    drift = 0.0
    for _ in range(STEPS):
        kind = dice.randrange(2)
        began = gpu.now
        drift = 0.98 * drift + dice.gauss(0, noise / 5)
        for work in kinds[kind]:
            process._queue(work * np.exp(drift + dice.gauss(0, noise)), 7)
        yield ("work", process._ends[7])
        late = dice.uniform(1e6, 6e6) if dice.random() < 0.02 else 0.0
        spans.append((began, gpu.now + late, kind))
        yield ("until", gpu.now + late + dice.expovariate(1e-6))
    process.done = True


def _bursts(dice, gpu, process, spans, victim):
    """Bursts of kernels, and pauses, of about 150 ms each."""
    while not victim.done:
        yield ("until", gpu.now + dice.expovariate(1 / 150e6))
        stop = gpu.now + dice.expovariate(1 / 150e6)
        while gpu.now < stop:
            began = gpu.now
            process._queue(dice.uniform(1e6, 5e6), 7)
            yield ("work", process._ends[7])
            spans.append((began, gpu.now))
            yield ("until", gpu.now + dice.uniform(1e4, 1e5))


def observed(seed, slowdown, noise=0.05):
    """The victim's samples and the neighbour's timeline of one run in virtual time."""
    dice = random.Random(seed)
    gpu = Gpu()
    victim, neighbour = gpu.process("victim"), gpu.process("neighbour", burden=slowdown)
    mine, its = [], []
    gpu.live(victim, _steps(dice, gpu, victim, mine, noise))
    gpu.live(neighbour, _bursts(dice, gpu, neighbour, its, victim))
    gpu.run()
    spans, bursts = np.array(mine, dtype=float), np.array(its, dtype=float)
    start, end, kind = spans.T
    samples = Samples(start, end, end - start, kind.astype(np.int64))
    return samples, Intervals.of(bursts[:, 0], bursts[:, 1], start[0], end[-1])
