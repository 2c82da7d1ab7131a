"""What is asked of totals is answered alike when seconds have become minutes and hours."""

import random

import pyarrow as pa
import pytest

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from cotenant.query.screens.counters import CounterCursor, since
from cotenant.schema.folding import HOUR_NS, SECOND_NS
from cotenant.store.folding import Folding
from cotenant.store.graveyard import GRACE_NS
from cotenant.store.writer import StoreWriter

MS = 1_000_000
DAY_NS = 24 * HOUR_NS
BEGAN_NS = 1_790_000_000_000_000_000 // DAY_NS * DAY_NS
# Recordings, each from a second to another: within a minute, an hour, and over the end of both. The
# third begins three seconds after the second ended, the last was killed.
RECORDINGS = ((31, 71), (200, 900), (903, 1_511), (3_500, 3_743), (7_000, 7_019))
CPUS = 3
SMALL_NS = 8 * MS  # What the second cgroup of a tenant uses.
TENANTS = {101: "train", 102: "serve", 103: "serve"}


def _total(at, cgroup, function, ns, size=None):
    row = {"timestamp_ns": at, "cgroup_id": cgroup, "function": function, "count": 7}
    row |= {"family": "host" if function == "oncpu" else "io", "sum_ns": ns, "max_ns": ns // 7}
    return row | {"histogram": [3, 0, 4], "bytes": size}


def _samples(rng):
    """When each recording sampled: every second, and once more right after; and what it found."""
    for began, ended in RECORDINGS:
        first = BEGAN_NS + began * SECOND_NS + rng.randrange(1, SECOND_NS)
        times = range(first, BEGAN_NS + ended * SECOND_NS, SECOND_NS)
        yield from ((at, list(_rows(at, rng))) for at in times)
        yield times[-1] + 200 * MS, [_total(times[-1] + 200 * MS, 101, "oncpu", 0)]


def _rows(at, rng):
    # The same in all of a minute, so that its mean is that of its seconds.
    share = (at - 1) // (60 * SECOND_NS) % 7
    yield _total(at, 101, "oncpu", share * SECOND_NS // 10)
    if share % 3:
        yield _total(at, 102, "oncpu", rng.randrange(SECOND_NS))
        yield _total(at, 102, "read", 9 * MS, rng.randrange(1 << 20))
    if share == 1:
        yield _total(at, 103, "oncpu", SMALL_NS)


def _containers():
    rows = [{"cgroup_id": c, "tenant": t, "container_id": t} for c, t in TENANTS.items()]
    return pa.Table.from_pylist([row | {"node": "node-a", "boot_id": "boot-1"} for row in rows])


def _session(start, end):
    about = {"node": "node-a", "boot_id": "boot-1", "kernel": "6.1", "wall_offset_ns": 0}
    about |= {"attach_method": "multi", "layers": "auto", "hierarchy": "v2"}
    about |= {"session_id": str(start), "started_ns": BEGAN_NS + start * SECOND_NS}
    if end != RECORDINGS[-1][1]:
        about["ended_ns"] = BEGAN_NS + end * SECOND_NS
    return pa.Table.from_pylist([about | {"notes": f'{{"cpus": {CPUS}}}'}])


@pytest.fixture(params=[37, 10**6], ids=["in many segments", "in one"])
def store(request, tmp_path):
    """So many samples in each segment: they end within minutes and hours."""
    rng = random.Random(3)
    with StoreWriter(tmp_path / "store", node="node-a", boot_id="boot-1") as writer:
        writer.replace("containers", _containers())
        for start, end in RECORDINGS:
            writer.replace("sessions", _session(start, end))
        for number, (at, rows) in enumerate(_samples(rng)):
            writer.append("totals", pa.Table.from_pylist(rows))
            if number % request.param == request.param - 1:
                writer.seal(at)
        writer.seal(at)
        yield writer


QUESTIONS = ("who_uses_what", "node_coverage", "team_use", "rightsize")
LOOKED_AT = "FROM looked_at"


def _answers(root):
    with Session(root) as session:
        answers = {name: session.ask(find(name).render()).rows() for name in QUESTIONS}
        answers["looked_at"] = session.ask(LOOKED_AT).rows()
        news = since(session, CounterCursor())
        answers["counters"] = [news.totals, news.histograms, news.durations]
    return answers


def _lengths(root):
    with Session(root) as session:
        rows = session.ask("SELECT DISTINCT seconds FROM totals ORDER BY ALL").rows()
        return [row["seconds"] for row in rows]


def _fold(store, now_ns):
    folding = Folding(store, share=1e9)
    while folding.step(now_ns):
        pass
    for later in (1, 2):  # What was folded gets its name when what it replaces is gone.
        store.bury(now_ns + later * GRACE_NS)


def _size_of(answers, tenant, *names):
    (row,) = [row for row in answers["rightsize"] if row["tenant"] == tenant]
    return tuple(row[name] for name in names)


def _check(store, before):
    """Whatever was folded: sums, times and peaks are those of the seconds."""
    after = _answers(store.root)
    for name in before.keys() - {"rightsize"}:
        assert after[name] == before[name], name
    peaks = ("cpus_peak", "io_bytes_peak")
    assert _size_of(after, "train", *peaks) == _size_of(before, "train", *peaks)
    # Two cgroups of a tenant may have had their peaks at different times.
    now, then = (_size_of(answers, "serve", *peaks) for answers in (after, before))
    assert now[1] == then[1]
    assert then[0] <= now[0] <= then[0] + SMALL_NS / SECOND_NS
    assert {r["period_ns"] for r in after["rightsize"]} == {_lengths(store.root)[-1] * SECOND_NS}
    return after


def test_minutes_and_hours_answer_as_their_seconds_did(store):
    before = _answers(store.root)
    percentiles = ("cpus_p50", "cpus_p99")
    _fold(store, BEGAN_NS + 9 * HOUR_NS)
    assert _lengths(store.root) == [60]
    after = _check(store, before)
    assert _size_of(after, "train", *percentiles) == _size_of(before, "train", *percentiles)
    _fold(store, BEGAN_NS + 9 * DAY_NS)
    assert _lengths(store.root) == [3600]
    _check(store, before)


def test_what_is_folded_in_two_batches_is_counted_once(store):
    """Segments end where they do: of one minute a part is folded, and the rest is not yet."""
    before = _answers(store.root)
    for hour in (7, 8):
        _fold(store, BEGAN_NS + hour * HOUR_NS)
        _check(store, before)


def test_no_row_spans_the_time_between_two_recordings(store):
    for _ in ("minutes", "hours"):
        _fold(store, BEGAN_NS + 9 * DAY_NS)
    with Session(store.root) as session:
        rows = session.ask("SELECT DISTINCT first_ns, timestamp_ns FROM totals ORDER BY ALL").rows()
    # One goes on after the end of an hour.
    assert len(rows) == len(RECORDINGS) + 1
    for row in rows:
        first, last = ((at - BEGAN_NS) / SECOND_NS for at in row.values())
        assert any(began < first <= last < ended + 1 for began, ended in RECORDINGS)
