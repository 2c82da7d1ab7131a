"""What a store lacks that was shipped or pulled, its answers say."""

import pyarrow as pa
import pytest

from cotenant.query.engine.left_behind import LEFT
from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from cotenant.remote.shipped import ALL_ROWS, BY_MINUTE
from cotenant.schema import TABLES
from cotenant.store.segment import rows_of
from cotenant.views import text
from cotenant.views.cli import main
from tests.unit.query.conftest import NOW_NS, SECOND_NS, Recorded

ROWS = "SELECT count(*) AS n FROM cuda_events"
COLLECTIVES = "SELECT count(*) AS n FROM nccl_events"
CALLS = "SELECT sum(calls)::BIGINT AS n FROM kernel_calls"
NO_ROWS = (
    "incomplete: not all rows of cuda_events are in this store; `cotenant pull` brings them from "
    "their node"
)
SOME_ROWS = NO_ROWS.replace("cuda_events", "nccl_events")
# What is known of spans alone: of what was added up there is no more than the time that was queued.
OF_SPANS = {
    "gpu_time", "share", "work_ns", "work_ci_low_ns", "work_ci_high_ns", "gpu_time_ns",
    "gpu_time_ci_low_ns", "gpu_time_ci_high_ns", "gpu_time_low_ns", "source", "idle_share",
}  # fmt: skip


@pytest.fixture
def near(fleet):
    """A tenant with 7 launches, and the minutes that they are added up in; nothing is missing."""
    store = Recorded(fleet.root)
    store.containers()
    store.sessions((NOW_NS - SECOND_NS, NOW_NS + SECOND_NS))
    launches(store, 7, NOW_NS)
    yield store
    store.writer.close()


@pytest.fixture
def worked(fleet):
    """A minute of work on a GPU and on the host, from the middle of a minute to that of the next.

    Each second of it was sampled at its end.
    """
    near = Recorded(fleet.root)
    near.containers()
    near.writer.spans_given = True
    start = NOW_NS // (60 * SECOND_NS) * 60 * SECOND_NS - 30 * SECOND_NS
    near.sessions((start, start + 60 * SECOND_NS))
    launches(near, 7, NOW_NS)
    span = {"timestamp_ns": start, "end_ns": start + 60 * SECOND_NS, "proof_ns": start + SECOND_NS}
    span |= {"cgroup_id": 11, "pid": 11, "gpu": "GPU-1", "stream": 0, "waited_ns": 1}
    span |= {"closed_by": "wait", "streams": 1, "launches": 60, "shed": 0, "lost": False}
    span |= dict.fromkeys(("copies", "copied_bytes", "collectives", "total_extent"), 0)
    near.writer.append("spans", rows_of(TABLES["spans"], [span]))
    for second in range(60):
        at_ns = start + second * SECOND_NS
        gpu = {"timestamp_ns": at_ns, "told_ns": at_ns + SECOND_NS, "cgroup_id": 11, "gpu": "GPU-1"}
        gpu |= dict.fromkeys(("overlapped_ns", "unproven_ns", "waits", "waited_ns"), 0)
        gpu |= {"queued_ns": SECOND_NS, "launches": 1, "copied_bytes": 0}
        near.writer.append("gpu_seconds", rows_of(TABLES["gpu_seconds"], [gpu]))
        near.writer.append("totals", rows_of(TABLES["totals"], totals(at_ns + SECOND_NS, second)))
    near.seal()
    yield near
    near.writer.close()


def totals(at_ns, second):
    """What both tenants did on the CPU, the disk and the network until then."""
    row = {"timestamp_ns": at_ns, "count": 1, "max_ns": second, "histogram": [0, 1]}
    kinds = (("host", "oncpu"), ("io", "read"), ("io", "write"), ("net", "send"), ("net", "recv"))
    return [
        row
        | {"cgroup_id": cgroup_id, "family": family, "function": function}
        | {"sum_ns": second * 2_000_000 * cgroup_id, "bytes": place * 4096 + second}
        for cgroup_id in (11, 22)
        for place, (family, function) in enumerate(kinds)
    ]


def launches(near, count, at_ns):
    near.launches(11, count, at_ns=at_ns)
    near.losses(11, seen=count, at_ns=at_ns)
    rollup = {"timestamp_ns": at_ns, "cgroup_id": 11, "family": "cuda", "op": "launch"}
    rollup |= {"name": "gemm", "count": count, "sum_ns": count * 1_000_000, "max_ns": 1_000_000}
    near.writer.append("rollups", pa.Table.from_pylist([rollup]))
    near.seal()


def collectives(near, count, *, nranks, comm_hash):
    what = {"op": "AllReduce", "api": "ncclAllReduce", "duration_ns": 5, "rank": 0}
    what |= {"nranks": nranks, "comm_hash": comm_hash}
    near.calls("nccl_events", 11, count, NOW_NS + comm_hash * SECOND_NS, **what)
    near.losses(11, seen=count, family="nccl", at_ns=NOW_NS + comm_hash * SECOND_NS)
    near.seal()


def answer(store, sql, **options):
    """The number, whether it is complete, and what it lacks."""
    with Session(store, **options) as session:
        found = session.ask(sql)
        lacks = text.incompleteness(found.standing)
        return found.rows()[0]["n"], found.complete, lacks


def test_rows_that_stayed_on_their_node_are_said_to_be_missing(fleet, near):
    fleet.ship()
    assert answer(fleet.root, ROWS) == (7, True, [])
    assert answer(fleet.far, ROWS) == (0, False, [NO_ROWS])
    assert answer(fleet.far, ROWS, tenant="train") == (0, False, [NO_ROWS])
    no_spans = NO_ROWS.replace("cuda_events", "spans")
    assert answer(fleet.far, "SELECT count(*) AS n FROM queued") == (0, False, [no_spans])
    # There were none.
    assert answer(fleet.far, "SELECT count(*) AS n FROM io_events") == (0, True, [])
    assert answer(fleet.far, ROWS, from_ns=NOW_NS + 1)[1:] == (True, [])
    fleet.ship(tables=ALL_ROWS)
    assert answer(fleet.far, ROWS) == (7, True, [])


def test_every_table_is_shipped_or_known_to_be_left_behind():
    whole = [shipped for shipped in BY_MINUTE if shipped.table != "nccl_events"]
    told = {table for shipped in whole for table in (shipped.table, *shipped.same)}
    # What tells of totals may not have been shipped always.
    assert TABLES.keys() - told == LEFT - {"totals"}


def test_collectives_within_a_node_are_said_to_be_missing(fleet, near):
    collectives(near, 5, nranks=2, comm_hash=1)
    fleet.ship()
    assert answer(fleet.far, COLLECTIVES) == (5, True, [])
    collectives(near, 3, nranks=1, comm_hash=2)
    fleet.ship()
    assert answer(fleet.far, COLLECTIVES) == (5, False, [SOME_ROWS])


def test_calls_are_counted_from_what_was_added_up_where_their_rows_are_not_there(fleet, near):
    collectives(near, 5, nranks=2, comm_hash=1)
    later = NOW_NS + 7200 * SECOND_NS
    near.sessions((NOW_NS - SECOND_NS, later + SECOND_NS))
    launches(near, 11, later)
    fleet.ship()
    for store in (fleet.root, fleet.far):
        assert answer(store, CALLS) == (18, True, [])
        minute = later // 60 // SECOND_NS * 60 * SECOND_NS
        assert answer(store, CALLS, from_ns=minute) == (11, True, [])


@pytest.mark.parametrize(
    ("question", "of_rows"),
    [
        ("top_kernels", {"gpu_ns", "gpu_low_ns", "gpu_high_ns", "gpu_ns_source", "quality"}),
        ("gpu_use", OF_SPANS),
        ("who_uses_what", {"gpu_work_ns", "gpu_percent"}),
        ("team_use", set()),
        ("node_coverage", set()),
    ],
)
def test_questions_that_read_what_was_added_up_are_answered_as_on_the_node(
    fleet, worked, question, of_rows
):
    collectives(worked, 5, nranks=2, comm_hash=1)
    collectives(worked, 3, nranks=1, comm_hash=2)
    fleet.ship()
    answers = []
    for store in (fleet.root, fleet.far):
        with Session(store) as session:
            found = session.ask(find(question).render())
            assert found.complete, text.incompleteness(found.standing)
            rows = found.rows()
            answers.append([{k: v for k, v in row.items() if k not in of_rows} for row in rows])
    assert answers[0] == answers[1]
    assert answers[0]


def test_the_time_looked_at_is_that_of_the_totals_not_of_whole_minutes(fleet, worked):
    fleet.ship()
    sql = "SELECT time_ns AS n FROM looked_at"
    assert answer(fleet.root, sql) == answer(fleet.far, sql) == (60 * SECOND_NS, True, [])
    # It has no totals of the minute in which the window ends, but work.
    share = "SELECT max(queued_ns / time_ns) AS n FROM queued_time JOIN looked_at USING (node)"
    assert answer(fleet.far, share, to_ns=NOW_NS)[0] <= 1


def test_totals_that_were_not_shipped_are_said_to_be_missing(fleet, worked):
    tables = tuple(shipped for shipped in BY_MINUTE if shipped.table != "total_minutes")
    fleet.ship(tables=tables)
    lacks = [NO_ROWS.replace("cuda_events", "totals")]
    for sql in ("SELECT sum(sum_ns) AS n FROM totals", "SELECT sum(time_ns) AS n FROM looked_at"):
        assert answer(fleet.far, sql)[1:] == (False, lacks)
        assert answer(fleet.far, sql, tenant="train")[1:] == (False, lacks)
        assert answer(fleet.far, sql, to_ns=NOW_NS - 1200 * SECOND_NS)[1:] == (True, [])
    fleet.ship()
    for sql in ("SELECT sum(sum_ns) AS n FROM totals", "SELECT sum(time_ns) AS n FROM looked_at"):
        assert answer(fleet.far, sql) == answer(fleet.root, sql)


def test_calls_under_way_are_said_to_be_missing(fleet, worked):
    now_ns = NOW_NS + 8 * SECOND_NS
    call = {"timestamp_ns": now_ns, "pid": 1, "tid": 1, "cgroup_id": 11, "comm": "python"}
    call |= {"family": "nccl", "function": "ncclAllReduce", "began_ns": NOW_NS - 60 * SECOND_NS}
    worked.writer.append("in_flight", pa.Table.from_pylist([call]))
    worked.seal()
    fleet.ship()
    lacks = [NO_ROWS.replace("cuda_events", "in_flight")]
    for table in ("in_flight", "calls_under_way"):
        sql = f"SELECT count(*) AS n FROM {table}"
        assert answer(fleet.far, sql) == (0, False, lacks)
        # A call that hangs has no rows that anybody counts.
        assert answer(fleet.far, sql, from_ns=NOW_NS + SECOND_NS) == (0, False, lacks)
        assert answer(fleet.far, sql, from_ns=NOW_NS + 1200 * SECOND_NS) == (0, True, [])
    fleet.ship(tables=ALL_ROWS)
    assert answer(fleet.far, "SELECT count(*) AS n FROM calls_under_way") == (1, True, [])


def test_what_is_added_up_stands_for_no_rows_but_its_own(fleet, worked):
    worked.losses(11, seen=3, family="host")
    worked.seal()
    fleet.ship()
    lacks = [NO_ROWS.replace("cuda_events", "host_events")]
    sql = "SELECT count(*) AS n FROM queued_time, cpu_culprits"
    assert answer(fleet.far, sql)[1:] == (False, lacks)
    assert answer(fleet.far, "SELECT count(*) AS n FROM queued_time, totals")[1:] == (True, [])


def test_what_was_told_after_the_time_that_is_pulled_is_pulled_too(fleet, near, tmp_path):
    window = 600 * SECOND_NS
    end = (NOW_NS // window + 1) * window
    near.hole(11, "probes came late", end - 4 * SECOND_NS, end - SECOND_NS, at_ns=end + SECOND_NS)
    counts = {"seen": 13, "stored": 11, "shed": 0, "lost": 2, "queued": 0, "reason": "ring full"}
    when = {"timestamp_ns": end + 1, "from_ns": end - SECOND_NS, "to_ns": end + 1}
    near.writer.append(
        "losses", pa.Table.from_pylist([counts | when | {"family": "cuda", "cgroup_id": 11}])
    )
    near.seal()
    words = ["--node", "node-a", "--from", str(NOW_NS), "--to", str(end)]
    case = tmp_path / "case"
    assert main(["pull", *words, "--store", str(fleet.root), "--into", str(case)]) == 0
    told = answer(fleet.root, ROWS, to_ns=end)
    assert told[:2] == (7, False)
    assert len(told[2]) == 2
    assert answer(case, ROWS, to_ns=end) == told


@pytest.mark.parametrize("verb", ["ship", "pull"])
def test_a_segment_that_is_missing_is_missing_there_too(fleet, near, tmp_path, capsys, verb):
    launches(near, 5, NOW_NS + SECOND_NS)
    copy = tmp_path / "copy"
    file = min(fleet.root.glob("cuda_events/*/*/*.parquet"))
    file.rename(copy)
    lacks = ["incomplete: 1 segments are missing"]
    assert answer(fleet.root, ROWS) == (5, False, lacks)
    words = {"ship": ["--rows", "--once", "--to"]}
    words["pull"] = ["--node", "node-a", "--from", str(NOW_NS), "--to", str(NOW_NS + 1), "--into"]
    for _ in range(2):
        assert main([verb, "--store", str(fleet.root), *words[verb], str(fleet.far)]) == 0
        out, err = capsys.readouterr()
        assert "1 segments are missing" in err
        assert answer(fleet.far, ROWS) == (5, False, lacks)
    assert " 0 objects" in out
    copy.rename(file)
    assert main([verb, "--store", str(fleet.root), *words[verb], str(fleet.far)]) == 0
    assert answer(fleet.far, ROWS) == (12, True, [])


def test_what_was_sent_before_it_went_missing_is_there(fleet, near):
    fleet.ship(tables=ALL_ROWS)
    min(fleet.root.glob("cuda_events/*/*/*.parquet")).unlink()
    assert answer(fleet.root, ROWS)[1] is False
    fleet.ship(tables=ALL_ROWS)
    assert answer(fleet.far, ROWS) == (7, True, [])


def test_what_is_pulled_from_a_store_without_rows_lacks_them_too(fleet, near, tmp_path):
    fleet.ship()
    words = ["--node", "node-a", "--from", str(NOW_NS), "--to", str(NOW_NS + SECOND_NS)]
    for _ in range(2):
        assert main(["pull", *words, "--store", str(fleet.far), "--into", str(tmp_path / "o")]) == 0
        assert answer(tmp_path / "o", ROWS) == (0, False, [NO_ROWS])
    assert main(["pull", *words, "--store", str(fleet.root), "--into", str(tmp_path / "o")]) == 0
    assert answer(tmp_path / "o", ROWS) == (7, True, [])
