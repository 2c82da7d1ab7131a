"""A window in which nobody recorded for a while is not complete, at its ends neither."""

import os

import pytest

from cotenant.query.engine import blindness
from cotenant.query.engine.session import QueryLimits, Session
from cotenant.store.manifest import manifest_path
from cotenant.views.cli import main
from tests.unit.query.conftest import NOW_NS, SECOND_NS

HOUR_NS = 3600 * SECOND_NS
START_NS, BEAT_NS = NOW_NS - 100 * SECOND_NS, NOW_NS + 7 * SECOND_NS
END_NS = BEAT_NS + SECOND_NS
LATER_NS = NOW_NS + 2 * HOUR_NS


@pytest.fixture
def killed(recorded, monkeypatch):
    """A recording without an end whose last beat is long ago; ``at`` says when its store is read,
    and how long after its last seal.
    """
    recorded.losses(11, seen=7, at_ns=BEAT_NS)
    recorded.sessions((START_NS, None))
    recorded.seal()

    def at(now_ns=LATER_NS, since_written_ns=HOUR_NS):
        monkeypatch.setattr(blindness, "time_ns", lambda: now_ns)
        written_ns = now_ns - since_written_ns
        os.utime(manifest_path(recorded.root, "node-a"), ns=(written_ns, written_ns))

    at()
    recorded.at = at
    return recorded


def down(store, *, tables=("cuda_events",), throughout=True, **options):
    limits = QueryLimits(throughout=throughout)
    with Session(store.root, limits=limits, **options) as session:
        holes = session.standing(tables).holes
    assert all(hole.reason == blindness.DOWN for hole in holes)
    return [(hole.interval.start_ns, hole.interval.end_ns) for hole in holes]


def test_a_window_that_begins_before_the_first_recording_is_not_complete(killed):
    assert down(killed, from_ns=START_NS - HOUR_NS) == [(START_NS - HOUR_NS, START_NS)]
    assert down(killed, from_ns=START_NS - HOUR_NS, tenant="train") == [
        (START_NS - HOUR_NS, START_NS)
    ]
    early = {"from_ns": START_NS - HOUR_NS, "to_ns": START_NS - HOUR_NS // 2}
    assert down(killed, **early) == [(early["from_ns"], early["to_ns"])]


def test_a_window_that_ends_after_a_killed_recording_is_not_complete(killed):
    assert down(killed, from_ns=START_NS, to_ns=NOW_NS + HOUR_NS) == [(BEAT_NS, NOW_NS + HOUR_NS)]
    assert down(killed, to_ns=LATER_NS + HOUR_NS) == [(BEAT_NS, LATER_NS)]


def test_a_window_that_ends_after_an_ended_recording_is_not_complete(killed):
    killed.sessions((START_NS, END_NS))
    killed.seal()
    killed.at(since_written_ns=0)
    assert down(killed, to_ns=NOW_NS + HOUR_NS) == [(END_NS, NOW_NS + HOUR_NS)]


def test_a_recording_that_still_writes_lacks_nothing_at_its_end(killed):
    for late_ns in (0, 29 * SECOND_NS):
        killed.at(since_written_ns=late_ns)
        assert down(killed, from_ns=START_NS, to_ns=LATER_NS + HOUR_NS) == []


def test_a_window_within_a_recording_lacks_nothing(killed):
    assert down(killed, from_ns=START_NS, to_ns=BEAT_NS) == []
    assert down(killed) == []
    assert down(killed, from_ns=START_NS) == []
    # Whoever gives a time rounds it.
    assert down(killed, from_ns=START_NS - SECOND_NS, to_ns=BEAT_NS + SECOND_NS) == []


def test_a_window_that_nobody_gave_by_its_times_lacks_what_is_between_recordings_alone(killed):
    around = {"from_ns": START_NS - HOUR_NS, "to_ns": NOW_NS + HOUR_NS}
    assert down(killed, throughout=False, **around) == []
    assert down(killed, tables=("containers",), **around) == []


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        (("--from", "2026-09-21T14:00:00", "--to", "2026-09-21T14:15:00"), 2),
        (("--to", "2026-09-21T14:15:00"), 1),
        (("--from", "2026-09-21T14:00:00"), 1),
        (("--since", "36500d"), 0),
        (("--since", "36500d", "--to", "2026-09-21T14:15:00"), 0),
        ((), 0),
    ],
)
def test_times_that_were_given_are_asked_about_to_their_ends(killed, capsys, given, lines):
    words = ["sql", "FROM cuda_events", "--store", str(killed.root), *given]
    assert main(words) == 0
    assert capsys.readouterr().err.count("incomplete: nothing recorded for ") == lines


def test_spans_of_a_killed_recording_are_not_complete_after_those_it_stored(recorded, monkeypatch):
    recorded.losses(11, seen=7, at_ns=BEAT_NS)
    recorded.sessions((START_NS, None), spans_until_ns=NOW_NS)
    recorded.seal()
    written_ns = LATER_NS - HOUR_NS
    monkeypatch.setattr(blindness, "time_ns", lambda: LATER_NS)
    os.utime(manifest_path(recorded.root, "node-a"), ns=(written_ns, written_ns))
    with Session(recorded.root) as session:
        (hole,) = session.standing(("spans",)).holes
        assert session.standing(("cuda_events",)).holes == ()
    assert (hole.reason, hole.interval.start_ns) == (blindness.KILLED, NOW_NS)
    assert hole.interval.end_ns == BEAT_NS
