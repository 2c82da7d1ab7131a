"""intervals: overlap with given intervals, as they are and rotated."""

import numpy as np

from cotenant.query.derived.intervals import Intervals


def test_overlap_is_what_both_intervals_share():
    queued = Intervals.of(np.array([10.0, 12, 30]), np.array([15.0, 20, 40]), 0.0, 100.0)
    assert queued.total == 20
    starts, ends = np.array([0.0, 11, 18, 35, 50]), np.array([10.0, 13, 32, 60, 60])
    assert queued.overlap(starts, ends).tolist() == [0, 2, 4, 5, 0]


def test_rotated_intervals_come_in_again_at_the_front():
    queued = Intervals.of(np.array([90.0]), np.array([100.0]), 0.0, 100.0)
    starts, ends = np.array([0.0, 5, 90]), np.array([5.0, 15, 100])
    assert queued.overlap(starts, ends, 10.0).tolist() == [5, 5, 0]
    rotated = queued.overlap(np.array([0.0]), np.array([100.0]), 37.0)
    assert rotated.tolist() == [10]
