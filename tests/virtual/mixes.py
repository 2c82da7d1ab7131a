"""Spans of one tenant with known device times, all of a run computed at once."""

from dataclasses import dataclass

import numpy as np

from cotenant.query.derived.solved_times.equations import Items

KINDS = ("quiet", "contended", "bimodal", "throttled", "alike")


@dataclass(frozen=True)
class Case:
    """What was seen, and what a launch of each kernel takes alone."""

    items: Items
    crowd: np.ndarray
    true_ns: np.ndarray
    share: np.ndarray  # Of each kernel in the time of all.


def _launches(dice, kind, spans, kernels):
    if kind != "alike":
        return dice.integers(0, 5, (spans, kernels)) + (np.arange(kernels) == 0)
    usual = dice.integers(1, 5, kernels)
    odd = (dice.random((spans, kernels)) < 0.03) * dice.choice([-1, 1], (spans, kernels))
    return np.maximum(usual + odd, 0)


def _clocks(dice, spans):
    """A GPU that is too warm for some of the time: once, or again and again."""
    factor, place = dice.uniform(1.1, 1.6), np.linspace(0, 1, spans)
    if dice.random() < 0.5:
        begin = dice.uniform(0.05, 0.85)
        warm = (place > begin) & (place < begin + dice.uniform(0.1, 0.7))
    else:
        warm = np.sin(2 * np.pi * place * dice.integers(2, 7)) > dice.uniform(-0.5, 0.8)
    return np.where(warm, factor, 1.0)


def case(kind, seed):
    """One run of a kind."""
    dice = np.random.default_rng([KINDS.index(kind), seed])
    spans, kernels = int(dice.integers(250, 700)), int(dice.integers(3, 9))
    true = np.exp(dice.uniform(np.log(3e4), np.log(1.5e6), kernels))
    launches = _launches(dice, kind, spans, kernels)
    noise = dice.uniform(0.01, 0.05)
    # The mean of so many launches, each with its own noise.
    each = dice.normal(0, 1, launches.shape) * noise / np.sqrt(np.maximum(launches, 1)) + 1
    work = (launches * true * each).sum(axis=1)
    crowd = np.zeros(spans)
    if kind == "contended":
        met = dice.random(spans) < dice.uniform(0.2, 0.8)
        crowd = np.where(met, dice.uniform(0.1, 1, spans), 0)
        factor = dice.uniform(1.2, 2.5)
        work = work / (1 - crowd + crowd / factor)
    if kind == "bimodal":
        slow = dice.random(spans) < dice.uniform(0.1, 0.9)
        work = np.where(slow, work * dice.uniform(1.15, 2), work)
    if kind == "throttled":
        work = work * _clocks(dice, spans)
    late = np.where(dice.random(spans) < dice.uniform(0, 0.06), dice.uniform(0, 3e6, spans), 0)
    span_ns = dice.uniform(4e3, 16e3) + work + late
    span, kernel = np.nonzero(launches)
    names = [f"kernel_{k}" for k in range(kernels)]
    none = np.zeros(len(span), dtype=np.int64)
    items = Items(
        span, kernel, none, launches[span, kernel].astype(float), span_ns, names,
        np.cumsum(span_ns + dice.exponential(1e6, spans)),
    )  # fmt: skip
    share = launches.sum(axis=0) * true
    return Case(items, crowd, true, share / share.sum())
