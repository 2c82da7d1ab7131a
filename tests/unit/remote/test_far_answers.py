"""What a store lacks that was shipped or pulled, its answers say."""

import pyarrow as pa
import pytest

from cotenant.query.engine.completeness import families_of
from cotenant.query.engine.left_behind import LEFT
from cotenant.query.engine.session import Session
from cotenant.remote.shipped import ALL_ROWS, BY_MINUTE
from cotenant.schema import TABLES
from cotenant.schema.folding import ROLLUP_TABLES
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


@pytest.fixture
def near(fleet):
    """A tenant with 7 launches, and the minutes that they are added up in; nothing is missing."""
    store = Recorded(fleet.root)
    store.containers()
    store.sessions((NOW_NS - SECOND_NS, NOW_NS + SECOND_NS))
    launches(store, 7, NOW_NS)
    yield store
    store.writer.close()


def launches(near, count, at_ns):
    near.launches(11, count, at_ns=at_ns)
    near.losses(11, seen=count, at_ns=at_ns)
    rollup = {"timestamp_ns": at_ns, "cgroup_id": 11, "family": "cuda", "op": "launch"}
    rollup |= {"name": "gemm", "count": count, "sum_ns": count, "max_ns": 1}
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
    assert answer(fleet.far, "SELECT count(*) AS n FROM busy") == (0, False, [NO_ROWS])
    # There were none.
    assert answer(fleet.far, "SELECT count(*) AS n FROM io_events") == (0, True, [])
    assert answer(fleet.far, ROWS, from_ns=NOW_NS + 1)[1:] == (True, [])
    fleet.ship(tables=ALL_ROWS)
    assert answer(fleet.far, ROWS) == (7, True, [])


def test_every_table_of_events_is_shipped_or_known_to_be_left_behind():
    shipped = {s.table for s in BY_MINUTE if s.change is None} | ROLLUP_TABLES
    assert {t for t in TABLES if families_of([t]) and t not in shipped} == LEFT


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


@pytest.mark.parametrize("question", ["top_kernels", "gpu_busy", "who_uses_what", "team_use"])
def test_questions_that_read_what_was_added_up_are_complete(fleet, near, capsys, question):
    collectives(near, 5, nranks=2, comm_hash=1)
    collectives(near, 3, nranks=1, comm_hash=2)
    fleet.ship()
    assert main(["ask", question, "--store", str(fleet.far)]) == 0
    assert "incomplete" not in capsys.readouterr().err


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
