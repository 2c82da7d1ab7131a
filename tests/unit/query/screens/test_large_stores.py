"""A store with more than can be shown at once: its newest part in full, the rest from rollups."""

from functools import partial

import pytest

from cotenant.query.engine.session import Session
from cotenant.query.screens.timeline import lanes as lanes_module
from cotenant.query.screens.timeline import queued, status
from cotenant.query.screens.timeline.lanes import Lanes
from cotenant.query.screens.timeline.newest import newest_part
from cotenant.query.screens.timeline.strip import strip
from cotenant.schema.families import FAMILIES
from tests.serving import SECOND_NS
from tests.virtual.rings import OFFSET_NS
from tests.virtual.steady_work import WORKS, begun, work

SECONDS = 23


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    recorder = begun(tmp_path_factory.mktemp("large") / "store")
    work(recorder, dict.fromkeys(WORKS, SECOND_NS), SECONDS * SECOND_NS)
    recorder.finish()
    with Session(recorder.writer.root) as opened:
        yield opened


def looked_at(session, monkeypatch, most):
    monkeypatch.setattr(lanes_module, "newest_part", partial(newest_part, most=most))
    found = Lanes()
    found.look(session)
    return found


def count_since(session, since_ns):
    (row,) = session.ask(
        f"SELECT count(*) AS n FROM cuda_events WHERE timestamp_ns >= {since_ns}"
    ).rows()
    return row["n"]


def test_the_newest_part_is_about_so_many_rows_and_begins_with_a_second(session):
    whole = count_since(session, 0)
    assert newest_part(session.segments, whole) is None
    for most in (whole - 1, 211, 101, 13):
        since_ns = newest_part(session.segments, most)
        assert since_ns % SECOND_NS == 0
        assert count_since(session, since_ns) <= most
        # The second before would be too much; work of these is as even as it can be.
        assert count_since(session, since_ns - 2 * SECOND_NS) > most


def test_a_survey_of_the_newest_part_counts_every_event_of_all(session, monkeypatch):
    whole = looked_at(session, monkeypatch, 10**9).survey
    part = looked_at(session, monkeypatch, 101).survey
    assert whole.newest_ns is None
    assert part.newest_ns is not None
    assert (part.events, part.longest) == (whole.events, whole.longest)
    assert set(part.order) == set(whole.order)
    # To the second, as rollups are.
    assert 0 <= whole.start_ns - part.start_ns < SECOND_NS
    assert part.end_ns == whole.end_ns


def test_the_strip_has_every_second_with_events(session):
    start_ns, end_ns = OFFSET_NS, OFFSET_NS + (SECONDS + 1) * SECOND_NS
    found = strip(session, start_ns, end_ns)
    second = f"(timestamp_ns - {start_ns}) // {SECOND_NS}"
    rows = session.ask(
        f"SELECT tenant, list_sort(list(DISTINCT {second})) AS seen "
        "FROM cuda_events JOIN containers USING (cgroup_id) GROUP BY tenant"
    ).rows()
    assert found == {"cell_ns": SECOND_NS, "tenants": {row["tenant"]: row["seen"] for row in rows}}
    assert len(rows) == len({cgroup for cgroup, *_ in WORKS.values()})


def test_time_queued_by_the_second_is_that_of_spans(tmp_path, monkeypatch):
    recorder = begun(tmp_path / "store")
    work(recorder, dict.fromkeys(WORKS, SECOND_NS), 61 * SECOND_NS)
    recorder.finish()
    start_ns, end_ns = OFFSET_NS + SECOND_NS, OFFSET_NS + 65 * SECOND_NS
    monkeypatch.setattr(queued, "CELLS", 16)  # Of four seconds each.
    with Session(recorder.writer.root) as opened:
        exact = queued.queued_cells(opened, start_ns, end_ns)
        monkeypatch.setattr(queued, "MOST_SPANS", 1)
        assert not queued.too_many(opened, start_ns, end_ns)
        rough = queued.queued_cells(opened, start_ns, end_ns)
        assert queued.too_many(opened, start_ns, start_ns + 15 * SECOND_NS)
    assert rough.keys() == exact.keys()
    for tenant, cells in exact.items():
        assert sum(cells) > 1
        # Cells begin with a second, so there is nothing to spread.
        assert rough[tenant] == pytest.approx(cells, abs=0.002)


def test_the_newest_event_is_that_of_all_rows_and_of_a_tenant_its_own(session):
    tables = [family.table.name for family in FAMILIES.values()]
    for tenant in (None, "/tenant-100"):
        with Session(session.store, tenant=tenant) as bound:
            each = " UNION ALL ".join(
                f"SELECT max(timestamp_ns) AS seen FROM {name}" for name in tables
            )
            (row,) = bound.ask(f"SELECT max(seen) AS seen FROM ({each})").rows()
            assert status.newest_ns(bound) == row["seen"]
