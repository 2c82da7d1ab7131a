"""Times of operations from spans, some of which a neighbour slowed."""

import numpy as np
import pytest

from cotenant.query.derived.operation_times.quantile_fit import Equations, fitted, quantiles


def equations(seed, kinds, slowed=0.0, by=1.7, spans=800):
    """Random mixes of kinds, with their true times."""
    dice = np.random.default_rng(seed)
    true = np.exp(dice.uniform(np.log(3e4), np.log(1.5e6), kinds))
    counts = dice.integers(0, 4, (spans, kinds))
    counts[:, 0] += 1
    took = counts @ true * np.where(dice.random(spans) < slowed, by, 1.0)
    span, kind = np.nonzero(counts)
    each = counts[span, kind].astype(float)
    return Equations(span, kind, each, took, np.ones(spans)), true


@pytest.mark.parametrize("kinds", [1, 3, 12, 40])
@pytest.mark.parametrize("slowed", [0.0, 0.5])
def test_each_time_is_found_though_half_of_the_spans_are_slowed(kinds, slowed):
    of, true = equations(kinds, kinds, slowed)
    assert fitted(of, kinds) == pytest.approx(true, rel=0.04)


def test_of_very_many_kinds_the_sum_is_right():
    of, true = equations(7, 200, 0.4)
    times = fitted(of, 200)
    assert of.predicted(times).sum() == pytest.approx(of.predicted(true).sum(), rel=0.02)


def test_a_kind_that_no_span_has_takes_no_time():
    of, true = equations(3, 2)
    assert fitted(of, 4) == pytest.approx([*true, 0, 0], rel=0.01)


def test_spans_of_one_mix_determine_their_sum():
    took = np.full(50, 9e6)
    span, kind = np.repeat(np.arange(50), 2), np.tile([0, 1], 50)
    of = Equations(span, kind, np.full(100, 2.0), took, np.ones(50))
    assert of.predicted(fitted(of, 2)) == pytest.approx(took)


def test_a_quantile_is_that_of_each_kind_by_weight():
    span, kind = np.array([0, 1, 2, 3, 0]), np.array([0, 0, 0, 0, 1])
    of = Equations(span, kind, np.ones(5), np.ones(4), np.ones(4))
    ratio, weights = np.array([4.0, 1.0, 3.0, 2.0]), np.array([1.0, 1.0, 7.0, 1.0, 1.0])
    assert quantiles(of, ratio, weights, 3, 0.5).tolist() == [3.0, 4.0, 1.0]
    assert quantiles(of, ratio, weights, 3, 0.05).tolist() == [1.0, 4.0, 1.0]
