"""The true slowdown of the device model against the estimate from samples."""

import statistics

import numpy as np

from cotenant.query.derived.interference.slowdown import Samples, slowdown
from cotenant.query.derived.intervals import Intervals
from tests.virtual.neighbours import observed

RUNS = 50


def _verdicts(first_seed, factors):
    return [
        (factor, slowdown(*observed(first_seed + run, factor), seed=run))
        for run, factor in enumerate(factors)
    ]


def test_the_interval_holds_the_true_slowdown_and_is_narrow():
    factors = [1 + 0.1 * (1 + run % 10) for run in range(RUNS)]
    verdicts = _verdicts(1_000, factors)
    held = sum(v.low <= factor <= v.high for factor, v in verdicts)
    width = statistics.median((v.high - v.low) / v.slowdown for _, v in verdicts)
    assert held >= 0.9 * RUNS
    assert width <= 0.2


def test_a_slowdown_of_a_third_is_detected():
    assert sum(v.evidence for _, v in _verdicts(2_000, [1.3] * RUNS)) >= 0.9 * RUNS


def test_without_a_slowdown_there_is_no_evidence():
    verdicts = _verdicts(3_000, [1.0] * RUNS)
    assert all(v.enough for _, v in verdicts)
    assert sum(not v.evidence for _, v in verdicts) >= 0.9 * RUNS


def test_a_neighbour_that_is_always_there_leaves_nothing_to_compare():
    start = np.arange(100) * 10.0
    samples = Samples(start, start + 5, np.full(100, 5.0), np.zeros(100, dtype=np.int64))
    always = Intervals.of(np.array([0.0]), np.array([1e6]), 0.0, 1e6)
    verdict = slowdown(samples, always)
    assert not verdict.enough
    assert not verdict.evidence
    assert (verdict.alone, verdict.shared) == (0, 100)
