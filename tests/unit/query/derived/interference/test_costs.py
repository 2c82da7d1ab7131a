"""What several aggressors cost a victim sums to what the victim lost."""

import numpy as np
import pytest

from cotenant.query.derived.interference.costs import costs
from cotenant.query.derived.intervals import Intervals


def queued(*intervals):
    starts, ends = (np.array(times, np.float64) for times in zip(*intervals, strict=True))
    return Intervals.of(starts, ends, 0.0, 1000.0)


def test_one_aggressor_costs_the_time_beside_it_less_what_that_takes_alone():
    assert costs(queued((0, 100)), [(queued((50, 150)), 2.0)]) == [25.0]
    assert costs(queued((0, 100)), [(queued((200, 300)), 2.0)]) == [0.0]


def test_two_at_once_share_what_was_lost():
    # 100 that take 3 times as long were 33.3 alone: 66.7 are lost, to two that are alike.
    both = costs(queued((0, 100)), [(queued((0, 100)), 2.0), (queued((0, 100)), 2.0)])
    assert both == pytest.approx([100 / 3, 100 / 3])


def test_the_parts_never_exceed_the_whole():
    generator = np.random.default_rng(7)
    for _ in range(50):
        starts = np.sort(generator.uniform(0, 900, (4, 20)))
        tenants = [queued(*zip(row, row + generator.uniform(1, 60), strict=True)) for row in starts]
        slowdowns = generator.uniform(1.1, 4, 3)
        parts = costs(tenants[0], list(zip(tenants[1:], slowdowns, strict=True)))
        alone = [
            costs(tenants[0], [(o, s)])[0] for o, s in zip(tenants[1:], slowdowns, strict=True)
        ]
        assert sum(parts) <= tenants[0].total * (1 - 1 / (1 + sum(slowdowns - 1))) + 1e-6
        assert all(part <= one + 1e-6 for part, one in zip(parts, alone, strict=True))
