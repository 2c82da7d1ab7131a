"""The kernel's clock into UTC: what is said of a moment stays said."""

import json
from typing import Any

import numpy as np

from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.session_row import SessionRow

QUARTER_NS = 1 << 28
BOOT_NS = 1_700_000_000_000_000_000
HOUR_NS = 3_600_000_000_000


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


def record_by(offsets: list[int]) -> tuple[list[int], int, dict[str, Any]]:
    """Rows at the kernel's second n after the nth look at the clock, and what sessions says."""
    clock = WallClock(iter(offsets).__next__)
    rows = []
    session = SessionRow(node="n", boot_id="b", hierarchy="v2", layers="auto", attaching_ns=0)
    for second in range(len(offsets)):
        step = clock.sample()
        now_ns = second * 10**9
        if step:
            session.clock_set(now_ns + clock.offset_ns, step)
        rows += clock.utc(moments(now_ns)).tolist()
    (row,) = session.table(clock.offset_ns).to_pylist()
    return rows, row["wall_offset_ns"], json.loads(row["notes"])


def test_rows_keep_the_time_of_their_seal_when_the_clock_is_set() -> None:
    rows, offset_ns, notes = record_by([BOOT_NS, BOOT_NS, BOOT_NS - HOUR_NS, BOOT_NS + HOUR_NS])
    assert rows == [
        BOOT_NS,
        BOOT_NS + 10**9,
        BOOT_NS - HOUR_NS + 2 * 10**9,
        BOOT_NS + HOUR_NS + 3 * 10**9,
    ]
    assert offset_ns == BOOT_NS + HOUR_NS
    assert notes["clock_steps"] == [
        {"at_ns": BOOT_NS - HOUR_NS + 2 * 10**9, "by_ns": -HOUR_NS},
        {"at_ns": BOOT_NS + HOUR_NS + 3 * 10**9, "by_ns": 2 * HOUR_NS},
    ]


def test_a_clock_that_is_steered_is_followed_without_a_word() -> None:
    rows, offset_ns, notes = record_by([BOOT_NS, BOOT_NS + 101, BOOT_NS - 499_999_999])
    assert rows == [BOOT_NS, BOOT_NS + 10**9 + 101, BOOT_NS + 2 * 10**9 - 499_999_999]
    assert offset_ns == BOOT_NS - 499_999_999
    assert "clock_steps" not in notes
