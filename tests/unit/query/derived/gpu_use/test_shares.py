"""Work in slots of 100 ms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.query.derived.gpu_use.shares import SLOT_NS, Slots

times = st.floats(0, 10 * SLOT_NS)
spans = st.lists(st.tuples(times, times, st.floats(0, SLOT_NS)), min_size=1, max_size=9)


def by_hand(slots, start, end, work):
    """One slot and one span after the other."""
    found = np.zeros(slots.count)
    for a, b, w in zip(start, end, work, strict=True):
        for n in range(slots.count):
            left = slots.begin + n * slots.width
            right = min(left + slots.width, slots.end)
            inside = min(b, right) - max(a, left)
            found[n] += w * max(inside, 0) / max(b - a, 1.0)
    return found


@given(spans, st.floats(0, 3 * SLOT_NS), st.floats(3.1 * SLOT_NS, 9 * SLOT_NS))
def test_work_is_in_the_slots_in_which_its_span_is(found, begin, end):
    slots = Slots(begin, end)
    start, until, work = (np.array(values) for values in zip(*found, strict=True))
    start, until = np.minimum(start, until), np.maximum(start, until) + 1
    expected = by_hand(slots, start, until, work)
    assert slots.work(start, until, work) == pytest.approx(expected, rel=1e-6, abs=10)


def test_the_last_slot_is_as_long_as_what_is_left_of_the_window():
    slots = Slots(0.0, 2.5 * SLOT_NS)
    assert slots.lengths().tolist() == [SLOT_NS, SLOT_NS, SLOT_NS / 2]


def test_a_long_window_has_no_more_than_a_million_slots():
    slots = Slots(0.0, 30 * 86_400e9)
    assert slots.count <= 1 << 20
    assert slots.lengths().sum() == pytest.approx(30 * 86_400e9)
