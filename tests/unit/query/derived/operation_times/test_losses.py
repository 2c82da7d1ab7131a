"""What a tenant's spans lose to others, where they go in step with a neighbour's."""

import numpy as np
import pytest

from cotenant.query.derived.operation_times.losses import alone_times
from cotenant.query.derived.operation_times.own_times import TimedSpans, own_times
from cotenant.query.derived.operation_times.quantile_fit import Equations

MS = 1_000_000


def spans_of(took_ms, company_ms):
    """Spans of one kernel each, that long and with a neighbour for so much of that."""
    took, company = np.array(took_ms) * MS, np.array(company_ms) * MS
    every, ones = np.arange(len(took)), np.ones(len(took))
    others = (company / took)[np.newaxis]
    equations = Equations(every, np.zeros(len(took), np.int64), ones, took, ones)
    return TimedSpans(equations, others[0] <= 0.02, others, 0 * others, float(took.sum()))


def test_spans_in_step_with_a_neighbour_do_not_deny_what_the_few_others_say():
    # 20 ms in turns of 2 ms with kernels of 4 ms: nearly always two of these, with pauses between.
    in_step = [16.15] * 24 + [17.25, 17.4, 17.45] * 45
    large = spans_of([28.01] * 159 + [20.01, 20.01, 23.0, 23.1], [*in_step, 0, 13.5, 11, 6.5])
    half = spans_of([4.01] * 500 + [8.01] * 320, [0] * 500 + [7.7] * 320)
    timed = [large, half]
    times = alone_times(timed, [own_times(spans, 1) for spans in timed])
    assert times[0].time[0] == pytest.approx(20 * MS, rel=0.07)
    assert times[1].time[0] == pytest.approx(4 * MS, rel=0.01)
