"""Evidence where one tenant slows another, none where nobody does; see bench/confidence.py."""

import pytest

from cotenant.query.derived.interference.slowdown import EVIDENCE, MAYBE, NONE, Verdict, level_of
from tests.virtual.confidence import PLANTED, findings

RUNS = 16


def test_where_nobody_slows_anybody_there_is_hardly_ever_a_finding():
    assert sum(bool(found) for found in findings(range(RUNS))) <= 1


@pytest.mark.parametrize("factor", [1.5, 2.0])
def test_a_planted_slowdown_is_found_with_its_culprit(factor):
    runs = findings(range(RUNS // 2), factor)
    assert sum(PLANTED in found for found in runs) >= 0.9 * len(runs)


def _verdict(p, low=1.1, slope=1.0, slowdown=1.5):
    return Verdict(slowdown=slowdown, low=low, high=2.0, p=p, slope=slope, alone=50, shared=50)


@pytest.mark.parametrize(
    ("verdict", "word"),
    [
        (_verdict(0.01), EVIDENCE),
        (_verdict(0.07), MAYBE),
        (_verdict(0.01, low=0.9), MAYBE),
        (_verdict(0.187), NONE),
        (_verdict(0.01, slope=-1.0), NONE),
        (_verdict(0.01, low=1.008, slowdown=1.009), NONE),
        (_verdict(0.01, low=1.008, slowdown=1.011), EVIDENCE),
    ],
)
def test_one_word_says_how_sure_it_is(verdict, word):
    assert verdict.word() == word


def test_the_more_pairs_are_looked_at_the_more_each_must_show():
    assert level_of([_verdict(0.04)]) == 0.04
    many = [_verdict(p) for p in (0.001, 0.02, 0.5, 0.6, 0.7, 0.8)]
    assert [v.word(level_of(many)) for v in many[:2]] == [EVIDENCE, MAYBE]
