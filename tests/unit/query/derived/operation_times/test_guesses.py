"""Times of operations that no wait of their tenant timed."""

import numpy as np

from cotenant.query.derived.operation_times.catalogue import _near_waits

MS = 1e6


def test_a_guess_that_a_wait_raises_takes_its_interval_along():
    guess = np.array([0.08, 0.08, 40.0]) * MS
    waited = np.array([20.0, np.nan, 20.0]) * MS
    time, low, high = _near_waits((guess, guess / 4, guess * 4), waited)
    assert time.tolist() == [2 * MS, 0.08 * MS, 20 * MS]
    assert (low <= time).all()
    assert (time <= high).all()
    # A guess that no wait raises keeps its own.
    assert high.tolist() == [6 * MS, 0.32 * MS, 60 * MS]
