"""What a trace shows of times in which something went unseen."""

import pytest

from cotenant.query.engine.session import Session
from cotenant.query.screens.trace import slices
from tests.unit.query.conftest import NOBODY, NOW_NS, SECOND_NS


def unseen(root, **options):
    with Session(root, **options) as session:
        rows = [row for batch in slices(session) for row in batch.to_pylist()]
    return sorted((r["tenant"], r["name"]) for r in rows if r["track"].startswith("unseen "))


def test_a_hole_that_was_told_after_the_window_is_on_the_track(recorded):
    when = (NOW_NS, NOW_NS + 5 * SECOND_NS)
    recorded.hole(11, "probes came late", *when, at_ns=NOW_NS + 7 * SECOND_NS)
    recorded.hole(11, "over budget", NOW_NS + 3 * SECOND_NS, NOW_NS + 5 * SECOND_NS)
    recorded.seal()
    assert unseen(recorded.root, to_ns=NOW_NS + 2 * SECOND_NS) == [("train", "probes came late")]


@pytest.mark.parametrize("tenant", [None, "train", "ml/serve"])
def test_what_may_be_anybodys_is_on_the_track_of_unknown(recorded, tenant):
    recorded.hole(NOBODY, "facts lost", NOW_NS, NOW_NS + SECOND_NS, unseen=7)
    recorded.seal()
    assert unseen(recorded.root, tenant=tenant) == [("unknown", "facts lost")]
