"""The kernel's clock into UTC: what is said of a moment stays said."""

import numpy as np

from cotenant.agent.clock import WallClock

QUARTER_NS = 1 << 28


def moments(*times: int) -> np.ndarray:
    return np.array(times, np.uint64)


def test_a_moment_is_told_the_same_after_the_clocks_drifted() -> None:
    clock = WallClock()
    clock.offset_ns = 1_000_000
    before = clock.utc(moments(5, 7)).tolist()
    clock.offset_ns = 2_000_000
    assert clock.utc(moments(5, 7)).tolist() == before == [1_000_005, 1_000_007]


def test_a_new_part_of_time_has_the_offset_of_today() -> None:
    clock = WallClock()
    clock.offset_ns = 100
    clock.utc(moments(1))
    clock.offset_ns = 300
    later = QUARTER_NS + 1
    assert clock.utc(moments(later, 1)).tolist() == [later + 300, 101]
    assert clock.utc(moments()).tolist() == []


def test_moments_hours_apart_are_told_together() -> None:
    clock = WallClock()
    clock.offset_ns = 100
    clock.utc(moments(3))
    clock.offset_ns = 200
    late = 1009 * QUARTER_NS
    assert clock.utc(moments(late, 3)).tolist() == [late + 200, 103]
