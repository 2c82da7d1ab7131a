"""A stated interval holds the truth, or no time is given; bench/confidence.py has more cases."""

import pytest

from tests.virtual.confidence import intervals
from tests.virtual.mixes import KINDS

CASES = 100


@pytest.mark.parametrize("kind", KINDS)
def test_a_stated_interval_holds_the_truth(kind):
    given = [holds for solved, holds, _ in intervals(kind, range(CASES)) if solved]
    assert sum(given) >= 0.93 * len(given)


def test_where_nothing_disturbs_a_narrow_interval_is_given():
    narrow = [solved and width <= 0.1 for solved, _, width in intervals("quiet", range(CASES))]
    assert sum(narrow) >= 0.8 * CASES


def test_spans_beside_a_neighbour_are_told_from_quiet_ones():
    found = intervals("contended", range(CASES))
    assert sum(solved and holds for solved, holds, _ in found) >= 0.8 * CASES


@pytest.mark.parametrize("kind", ["bimodal", "throttled"])
def test_spans_of_several_sorts_have_no_one_time(kind):
    assert sum(solved for solved, _, _ in intervals(kind, range(CASES))) <= 0.1 * CASES
