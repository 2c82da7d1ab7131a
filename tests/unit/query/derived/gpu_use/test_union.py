"""The union of what spans hold."""

import numpy as np
import pytest

from cotenant.query.derived.device_spans import Company, DeviceSpans
from cotenant.query.derived.gpu_use.union import Timeline

MS = 1_000_000


def spans(*each, certain=()):
    """From and until, in milliseconds; and when the device was at it for certain."""
    start, end = (np.array(times) * MS for times in zip(*sorted(each), strict=True))
    edges = [(a // MS, b // MS) for a, b in zip(start.tolist(), end.tolist(), strict=True)]
    sure = [dict(certain).get(edge, (edge[1], edge[1])) for edge in edges]
    low, until = (np.array(times) * MS for times in zip(*sure, strict=True))
    none = np.zeros(len(start), bool)
    return DeviceSpans(
        0, "node", "GPU", "t", start, end, low, until, end, start, none, start, start * 0
    )


def at_work(of, *parts, window=(0, 100)):
    line = Timeline.of(of, 0, window[0] * MS, window[1] * MS)
    certain = (of.certain_until - of.certain_from).astype(float)
    return line.at_work(np.array(parts) * MS, certain) / MS


def test_spans_one_after_the_other_add_up():
    assert at_work(spans((0, 10), (10, 30)), 10, 5) == pytest.approx(15, abs=1e-3)


def test_full_spans_on_two_streams_count_once():
    assert at_work(spans((0, 10), (5, 20)), 10, 15) == pytest.approx(20, abs=1e-3)


def test_parts_of_spans_at_one_time_do_not_know_of_each_other():
    assert at_work(spans((0, 10), (0, 10)), 5, 5) == pytest.approx(7.5, abs=1e-3)


def test_what_is_certain_counts_once_whatever_else_there_is():
    of = spans((0, 10), (0, 20), certain={(0, 10): (4, 10)})
    # 4 of 10 ms hold no part of the first; the second is at work for half of its time.
    assert at_work(of, 6, 10) == pytest.approx(6 + 14 * 0.5, abs=1e-3)


def test_only_what_is_in_the_window_counts():
    assert at_work(spans((0, 40)), 20, window=(10, 30)) == pytest.approx(10, abs=1e-3)


def test_company_is_the_time_in_which_another_tenant_had_work():
    own, other = spans((0, 10), (20, 30)), spans((5, 25))
    other.pid[:] = 1
    part = Company.of([own, other]).part(own.start, own.end)
    assert part.tolist() == [0.5, 0.5]
    assert Company.of([own]).part(own.start, own.end).tolist() == [0, 0]
