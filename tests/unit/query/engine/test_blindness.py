"""An answer is complete only if nothing of its tenants, tables and time went unseen."""

import json

import pyarrow as pa
import pytest

from cotenant.query.engine.answer import Hole, Interval
from cotenant.query.engine.session import Session
from cotenant.schema import TABLES
from cotenant.schema.families import FAMILIES
from cotenant.schema.holes import TOLD_WITHIN_NS
from cotenant.store.writer import StoreWriter
from cotenant.views import text
from tests.unit.query.conftest import NOBODY, NOW_NS, SECOND_NS

MS = 1_000_000
ROWS = "SELECT count(*) FROM cuda_events"


def standing(recorded, sql=ROWS, **options):
    recorded.losses(11, seen=7)
    recorded.losses(22, seen=5)
    recorded.losses(11, seen=3, family="nccl")
    recorded.seal()
    with Session(recorded.root, **options) as session:
        return session.ask(sql).standing


def test_a_hole_is_told_with_its_tenant_its_length_and_its_reason(recorded):
    recorded.hole(11, "probes came late", NOW_NS + 7 * MS, NOW_NS + 1241 * MS)
    found = standing(recorded)
    assert found.holes == (
        Hole(
            "probes came late", ("cuda",), ("train",),
            Interval(NOW_NS + 7 * MS, NOW_NS + 1241 * MS), 1234 * MS, None,
        ),
    )  # fmt: skip
    assert not found.complete
    (line,) = text.incompleteness(found)
    assert line == (
        "incomplete: cuda events of train missing for 1.23 s from 2026-09-21 14:13:20.007 UTC "
        "(probes came late)"
    )


def test_overlapping_pieces_are_one_hole_and_counts_add_up(recorded):
    for start, end, unseen in ((0, 300, 5), (100, 200, 7), (250, 400, 11), (900, 1000, 13)):
        recorded.hole(11, "over budget", NOW_NS + start * MS, NOW_NS + end * MS, unseen=unseen)
    (hole,) = standing(recorded).holes
    assert (hole.blind_ns, hole.unseen) == (500 * MS, 36)
    assert (
        "36 cuda events of train missing for 500 ms" in text.incompleteness(standing(recorded))[0]
    )


def test_neither_another_tenant_nor_another_time_nor_another_table_is_touched(recorded):
    recorded.hole(11, "probes came late", NOW_NS, NOW_NS + SECOND_NS)
    assert standing(recorded, tenant="train").complete is False
    assert standing(recorded, tenant="ml/serve").complete
    assert standing(recorded, from_ns=NOW_NS + 2 * SECOND_NS).holes == ()
    assert standing(recorded, to_ns=NOW_NS).holes == ()
    assert standing(recorded, "FROM nccl_events").complete
    assert standing(recorded, "FROM containers").holes == ()
    assert len(standing(recorded, "FROM totals").holes) == 1


def test_a_window_within_a_hole_that_was_told_later_knows_of_it(recorded):
    told = NOW_NS + TOLD_WITHIN_NS - SECOND_NS
    recorded.hole(11, "probes came late", NOW_NS, NOW_NS + 9 * SECOND_NS, at_ns=told)
    (hole,) = standing(recorded, from_ns=NOW_NS + SECOND_NS, to_ns=NOW_NS + 3 * SECOND_NS).holes
    assert hole.blind_ns == 2 * SECOND_NS


def test_what_was_lost_in_the_last_second_of_a_window_is_told_after_it(recorded):
    end = NOW_NS + SECOND_NS // 2
    row = {"seen": 13, "stored": 11, "shed": 0, "lost": 2, "queued": 0, "reason": "ring full"}
    when = {"timestamp_ns": end + 1, "from_ns": NOW_NS, "to_ns": end + 1}
    recorded.writer.append(
        "losses", pa.Table.from_pylist([row | when | {"family": "cuda", "cgroup_id": 22}])
    )
    (loss,) = standing(recorded, tenant="ml/serve", to_ns=end).losses
    assert (loss.seen, loss.lost) == (18, 2)


def test_what_nobody_knows_the_tenant_of_may_be_anybodys(recorded):
    recorded.hole(NOBODY, "facts lost", NOW_NS, NOW_NS + SECOND_NS, unseen=871_052)
    for tenant in (None, "train", "ml/serve"):
        found = standing(recorded, tenant=tenant)
        assert not found.complete
        assert found.holes[0].unseen == 871_052
        assert "871,052 names and identities" in text.incompleteness(found)[0]


def test_a_reason_touches_the_tables_it_is_about(recorded):
    recorded.hole(11, "no room for allocations", NOW_NS, NOW_NS + SECOND_NS, unseen=17)
    recorded.hole(22, "kernels without a name", NOW_NS, NOW_NS + SECOND_NS, unseen=194)
    recorded.hole(22, "no room for totals", NOW_NS, NOW_NS + SECOND_NS)
    assert [h.reason for h in standing(recorded).holes] == ["kernels without a name"]
    assert [h.reason for h in standing(recorded, "FROM gpu_memory").holes] == [
        "no room for allocations"
    ]
    assert [h.reason for h in standing(recorded, "FROM totals").holes] == ["no room for totals"]


LAUNCHES = "SELECT count(*) FROM cuda_events WHERE op IN ('launch', 'graph_launch')"


def test_functions_without_a_probe_touch_answers_about_their_operation_alone(recorded):
    """As on driver 460, whose memory functions are left to UCX."""
    for op in ("alloc", "free"):
        recorded.hole(11, f"no probe for {op}", NOW_NS, NOW_NS + 9 * SECOND_NS)
    complete = (
        LAUNCHES,
        f"{LAUNCHES} AND result = 0",
        "SELECT e.pid FROM cuda_events e JOIN containers USING (cgroup_id) WHERE e.op = 'memcpy'",
        "FROM spans",
        "FROM gpu_use",
        "FROM gpu_seconds",
        "FROM nccl_events",
    )
    for sql in complete:
        assert standing(recorded, sql).complete, sql
    both = ["no probe for alloc", "no probe for free"]
    for sql, reasons in (
        ("FROM gpu_memory", both),
        (ROWS, both),
        ("FROM totals", both),
        ("SELECT * FROM cuda_events WHERE op = 'launch' OR op = 'alloc'", both),
        ("SELECT * FROM cuda_events WHERE op <> 'launch'", both),
        ("SELECT * FROM cuda_events WHERE op = 'alloc'", both[:1]),
        (f"SELECT ({LAUNCHES}), (SELECT count(*) FROM cuda_events WHERE op = 'free')", both[1:]),
        ("SELECT a.op FROM cuda_events a, cuda_events b WHERE a.op = 'launch'", both),
        ("FROM kernel_calls", both),
    ):
        assert sorted(hole.reason for hole in standing(recorded, sql).holes) == reasons, sql
    assert standing(recorded, "FROM gpu_memory", tenant="ml/serve").complete
    assert text.incompleteness(standing(recorded, "FROM gpu_memory")) == [
        "incomplete: alloc calls of train are not recorded (no probe for alloc)",
        "incomplete: free calls of train are not recorded (no probe for free)",
    ]


def test_launches_without_a_probe_leave_memory_complete(recorded):
    recorded.hole(11, "no probe for launch", NOW_NS, NOW_NS + 9 * SECOND_NS)
    assert standing(recorded, "FROM gpu_memory").complete
    assert standing(recorded, "SELECT * FROM cuda_events WHERE op = 'alloc'").complete
    for sql in (LAUNCHES, ROWS, "FROM spans", "FROM gpu_use"):
        assert not standing(recorded, sql).complete, sql


@pytest.mark.parametrize(
    ("reason", "family", "tables"),
    [
        ("no room for allocations", "cuda", {"gpu_memory", "gpu_seconds", "gpu_minutes"}),
        ("no room for captures", "cuda", {"cuda_events", "gpu_seconds", "gpu_hours"}),
        ("no room for CUDA events", "cuda", {"gpu_timings", "cuda_events"}),
        ("no room for totals", "nccl", {"totals", "total_hours", "losses"}),
    ],
)
def test_a_column_that_lacks_something_makes_its_table_lack_it(recorded, reason, family, tables):
    recorded.hole(11, reason, NOW_NS, NOW_NS + SECOND_NS, family=family)
    recorded.seal()
    with Session(recorded.root) as session:
        for name in tables:
            assert [hole.reason for hole in session.standing([name]).holes] == [reason], name
        assert session.standing(["io_events", "limits", "cpu_contention"]).complete


def test_totals_lack_what_their_kernel_refused(recorded):
    refused = {"hooks_refused": {"io_done": "not seen: disk requests (why not)"}}
    recorded.sessions((NOW_NS - SECOND_NS, None), notes=json.dumps(refused))
    lacking = {
        table
        for table in ("io_events", "totals", "total_minutes", "in_flight", "cuda_events", "losses")
        if standing(recorded, f"FROM {table}").unrecorded == ("not seen: disk requests",)
    }
    assert lacking == {"io_events", "totals", "total_minutes"}


def test_between_two_recordings_nothing_was_seen(recorded):
    start, gap = NOW_NS - 10 * SECOND_NS, 5 * SECOND_NS
    recorded.sessions((start, NOW_NS), (NOW_NS + gap, None))
    found = standing(recorded)
    assert [(h.reason, h.blind_ns) for h in found.holes] == [("nothing recorded", gap)]
    assert text.incompleteness(found) == [
        "incomplete: nothing recorded for 5 s from 2026-09-21 14:13:20.000 UTC"
    ]
    assert standing(recorded, to_ns=NOW_NS).complete
    assert standing(recorded, from_ns=NOW_NS + gap).complete
    assert standing(recorded, tenant="train").complete is False


def test_a_recording_that_was_killed_ended_with_its_last_count(recorded):
    recorded.sessions((NOW_NS - SECOND_NS, None), (NOW_NS + 3 * SECOND_NS, None))
    (hole,) = standing(recorded, tenant="ml/serve").holes
    assert hole.interval == Interval(NOW_NS, NOW_NS + 3 * SECOND_NS)


def test_a_tenant_hears_of_what_its_kernel_refused(recorded):
    refused = {"hooks_refused": {"cuda_odd": "not seen: odd calls (why not)"}}
    recorded.sessions((NOW_NS - SECOND_NS, None), notes=json.dumps(refused))
    for tenant in (None, "train"):
        found = standing(recorded, tenant=tenant)
        assert (found.unrecorded, found.complete) == (("not seen: odd calls",), False)


def test_every_table_of_what_was_recorded_has_a_hole_where_its_events_have_one(recorded):
    about_nothing = {"containers", "sessions", "limits", "losses"}
    for family in FAMILIES:
        recorded.hole(11, "runs left out by the kernel", NOW_NS, NOW_NS + 1, family=family)
    recorded.seal()
    with Session(recorded.root) as session:
        whole = {name for name in TABLES if not session.standing([name]).holes}
    assert whole == about_nothing


def test_what_is_older_than_all_that_is_known_of_losses_is_not_called_complete(recorded):
    day = 86_400 * SECOND_NS
    recorded.sessions((NOW_NS - 20 * day, NOW_NS + day))
    rollup = {"cgroup_id": 11, "family": "cuda", "op": "launch", "name": "gemm", "count": 7}
    recorded.writer.append(
        "rollups", pa.Table.from_pylist([rollup | {"timestamp_ns": NOW_NS - 10 * day}])
    )
    found = standing(recorded, "FROM rollups")
    assert [(h.reason, h.blind_ns) for h in found.holes] == [("losses no longer kept", 10 * day)]
    assert not found.complete
    (line,) = text.incompleteness(found)
    assert line.startswith("incomplete: losses no longer kept for 864,000 s")
    assert standing(recorded, "FROM rollups", from_ns=NOW_NS).complete
    assert standing(recorded).complete  # Rows are kept no longer than what they lack.


def test_rollups_of_which_no_losses_are_left_at_all_are_not_called_complete(recorded):
    day = 86_400 * SECOND_NS
    recorded.sessions((NOW_NS - 20 * day, NOW_NS + day))
    rollup = {"cgroup_id": 11, "family": "cuda", "op": "launch", "name": "gemm", "count": 7}
    times = [NOW_NS - 10 * day, NOW_NS - 3 * day]
    recorded.writer.append(
        "rollups", pa.Table.from_pylist([rollup | {"timestamp_ns": at} for at in times])
    )
    recorded.seal()
    with Session(recorded.root) as session:
        assert not session.ask("SELECT * FROM losses").rows()
        found = session.ask("FROM rollups").standing
    assert [(h.reason, h.blind_ns) for h in found.holes] == [("losses no longer kept", 7 * day)]


@pytest.mark.parametrize("table", ["losses", "sessions"])
def test_an_answer_is_not_complete_if_a_file_that_tells_what_it_lacks_is_missing(recorded, table):
    recorded.sessions((NOW_NS - SECOND_NS, NOW_NS))
    assert standing(recorded).complete
    (file,) = recorded.root.glob(f"{table}/*/*/*.parquet")
    file.unlink()
    with Session(recorded.root) as session:
        found = session.ask(ROWS).standing
        assert (found.missing_segments, found.complete) == (1, False)
        assert session.ask("FROM containers").standing.missing_segments == 0


def test_of_a_tenant_nothing_is_complete_if_a_file_that_tells_its_cgroups_is_missing(recorded):
    again = {"cgroup_id": 12, "container_id": "a" * 64, "tenant": "train"}
    again |= {"node": "node-a", "boot_id": "boot-2"}
    recorded.writer.close()
    (before,) = recorded.root.glob("containers/*/*/*.parquet")
    with StoreWriter(recorded.root, node="node-a", boot_id="boot-2") as writer:
        writer.replace("containers", pa.Table.from_pylist([again]))
        writer.seal(NOW_NS + SECOND_NS)
    before.unlink()
    with Session(recorded.root, tenant="train") as session:
        found = session.ask(ROWS).standing
    assert (found.missing_segments, found.complete) == (1, False)


def test_files_are_missed_before_their_rows_are_asked_for(recorded):
    recorded.seal()
    (file,) = recorded.root.glob("nccl_events/*/*/*.parquet")
    file.unlink()
    with Session(recorded.root) as session:
        assert session.standing(["nccl_events"]).missing_segments == 1
        assert session.standing(["cuda_events"]).missing_segments == 0


def test_holes_of_rollups_are_told_of_what_is_made_of_them(recorded):
    hour = 3_600 * SECOND_NS
    recorded.sessions((NOW_NS - SECOND_NS, NOW_NS + 4 * hour))
    recorded.launches(11, 13, at_ns=NOW_NS + 3 * hour)
    rollup = {"cgroup_id": 11, "family": "cuda", "op": "launch", "name": "gemm", "count": 7}
    rollup |= {"timestamp_ns": NOW_NS, "sum_ns": 7, "max_ns": 1}
    recorded.writer.append("rollups", pa.Table.from_pylist([rollup]))
    recorded.hole(NOBODY, "samples failed", NOW_NS + hour, NOW_NS + 2 * hour)
    assert [hole.reason for hole in standing(recorded, "FROM kernel_calls").holes] == [
        "samples failed"
    ]
