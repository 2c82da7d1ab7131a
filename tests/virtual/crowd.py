"""Three tenants on one GPU, all of a run computed at once.

While a tenant that slows it has work, a victim's work proceeds at a fraction of its speed. With
``u(t)`` the time that it had at full speed, a step of work ``w`` that begins at ``u`` ends at
``u + w``; so steps are sums, and moments the inverse of ``u``.
"""

import numpy as np

from cotenant.query.derived.interference.gpu import Gpu, Spans, Tenant
from cotenant.query.derived.intervals import Intervals

SECONDS = 40
NS = 1e9
NAMES = ("train", "serve", "noisy")


def _bouts(dice, length):
    """When a tenant is there at all: bouts and pauses, some regular and some not."""
    mean = dice.uniform(0.1e9, 0.6e9)
    count = int(4 * length / mean) + 50
    if dice.random() < 0.3:
        parts = mean * dice.normal(1, 0.05, count).clip(0.5, 1.5)
    else:
        parts = dice.exponential(mean, count) + 5e6
    edges = np.cumsum(parts)
    return np.column_stack([edges[0::2][: len(edges) // 2], edges[1::2][: len(edges) // 2]])


def _speed(slowers, length):
    """Knots of ``u``: moments, and the time at full speed until each."""
    moments = np.unique(np.concatenate([[0.0, length], *(queued.ravel() for _, queued in slowers)]))
    moments = moments[moments <= length]
    middle = (moments[1:] + moments[:-1]) / 2
    rate = np.ones(len(middle))
    for factor, queued in slowers:
        at = np.searchsorted(queued[:, 0], middle, side="right") - 1
        inside = (at >= 0) & (middle < queued[np.maximum(at, 0), 1])
        rate = np.where(inside, rate / factor, rate)
    return moments, np.concatenate([[0.0], np.cumsum(rate * np.diff(moments))])


def _steps(dice, bouts, slowers, length, noise):
    """Steps of two or three kinds, back to back while the tenant is there; the host is late."""
    kinds = dice.uniform(0.8e6, 6e6, dice.integers(2, 4))
    count = int(length / kinds.mean())
    kind = dice.integers(0, len(kinds), count)
    drift = np.cumsum(dice.normal(0, noise / 40, count))
    drift -= np.linspace(0, drift[-1], count)
    work = kinds[kind] * np.exp(drift + dice.normal(0, noise, count))
    gap = dice.exponential(0.3e6, count)
    moments, full = _speed(slowers, length)
    begin = np.cumsum(work + gap) - work
    start, end = (np.interp(u, full, moments) for u in (begin, begin + work))
    end = end + np.where(dice.random(count) < 0.02, dice.uniform(5e5, 3e6, count), 0)
    at = np.searchsorted(bouts[:, 0], start, side="right") - 1
    there = (at >= 0) & (end < bouts[np.maximum(at, 0), 1]) & (end < length)
    there[1:] &= start[1:] >= end[:-1]
    return start[there], end[there], kind[there]


def crowd(seed, planted=None, *, noise=0.04):
    """A GPU with three tenants; ``planted`` maps (victim, aggressor) to a factor.

    An aggressor is nobody's victim.
    """
    dice, length = np.random.default_rng(seed), SECONDS * NS
    planted = planted or {}
    queued, tenants = {}, []
    for name in sorted(NAMES, key=lambda name: any(of == name for of, _ in planted)):
        slowers = [(f, queued[by]) for (of, by), f in planted.items() if of == name]
        start, end, kind = _steps(dice, _bouts(dice, length), slowers, length, noise)
        none = np.zeros(len(start))
        spans = Spans(start, end, kind, np.arange(len(start)), none == 0, none, none)
        tenants.append(Tenant(name, spans, Intervals.of(start, end, 0.0, length)))
        queued[name] = np.column_stack([tenants[-1].queued.starts, tenants[-1].queued.ends])
    return Gpu("node-a", "GPU-1", 0, 0.0, length, tuple(tenants), (0.0, length))
