"""What applications timed, in the rows of the operations."""

import pyarrow as pa
import pytest

from cotenant.query.engine.session import Session
from cotenant.store import compaction
from cotenant.store.writer import StoreWriter
from cotenant.views.export.progress import ExportProgress
from cotenant.views.export.tables import write_tables

NOW_NS = 1_790_000_000_000_000_000
SECOND_NS = 1_000_000_000
ROWS = "select timestamp_ns, gpu_ns, gpu_ns_source from cuda_events order by timestamp_ns"


def timings(*told, cgroup_id=11):
    """Rows of gpu_timings: operation, device time, and when it was asked."""
    return pa.table(
        {
            "timestamp_ns": [NOW_NS + at for at, _, _ in told],
            "pid": pa.array([cgroup_id] * len(told), pa.int32()),
            "tid": pa.array([cgroup_id] * len(told), pa.int32()),
            "cgroup_id": [cgroup_id] * len(told),
            "gpu_ns": [gpu_ns for _, gpu_ns, _ in told],
            "asked_ns": [NOW_NS + asked for _, _, asked in told],
        }
    )


@pytest.fixture
def timed(recorded):
    """The second and fifth launch of ``train`` are timed, the second twice."""
    recorded.writer.append("gpu_timings", timings((1, 700, 90), (4, 300, 50), (1, 500, 40)))
    recorded.seal()
    return recorded


def test_an_operation_has_the_time_that_was_told_first(timed, ask):
    known = [row for row in ask(ROWS) if row[1] is not None]
    assert known == [(NOW_NS + 1, 500, "elapsed"), (NOW_NS + 4, 300, "elapsed")]
    assert len(ask(ROWS)) == 12
    assert {row[2] for row in ask(ROWS)} == {None, "elapsed"}


def test_columns_keep_their_order(timed):
    with Session(timed.root) as session:
        joined = session.ask("describe cuda_events").rows()
    with Session(timed.root, from_ns=NOW_NS + SECOND_NS) as session:
        assert session.ask("describe cuda_events").rows() == joined


def definition(session):
    rows = session.ask("select sql from duckdb_views() where view_name = 'cuda_events'").rows()
    return rows[0]["sql"]


def test_only_segments_with_timings_near_are_joined(recorded, timed):
    with Session(timed.root) as session:
        assert "measured_ns" in definition(session)
    with Session(timed.root, from_ns=NOW_NS + SECOND_NS) as session:
        assert "measured_ns" not in definition(session)
    recorded.launches(22, 5, at_ns=NOW_NS + 60 * SECOND_NS)
    recorded.seal()
    with Session(timed.root) as session:
        assert "UNION ALL" in definition(session)
        assert session.ask("select count(*) as n from cuda_events").rows() == [{"n": 17}]
        known = session.ask("select count(gpu_ns) as n from cuda_events").rows()
        assert known == [{"n": 2}]


def test_a_store_without_timings_is_read_as_it_is(recorded, ask):
    with Session(recorded.root) as session:
        assert "JOIN" not in definition(session)
    assert {row[1:] for row in ask(ROWS)} == {(None, None)}


def test_another_node_or_thread_at_the_same_moment_has_no_time(timed, ask):
    with StoreWriter(timed.root, node="node-b", boot_id="boot-2") as other:
        timed.writer, mine = other, timed.writer
        timed.launches(11, 7)
        other.seal(NOW_NS)
        timed.writer = mine
    assert ask("select node, count(gpu_ns) from cuda_events group by 1 order by 1") == [
        ("node-a", 2),
        ("node-b", 0),
    ]


def test_a_session_of_one_tenant_has_its_times(timed, ask):
    assert len([r for r in ask(ROWS, tenant="train") if r[1] is not None]) == 2
    assert ask("select count(*) from gpu_timings", tenant="ml/serve") == [(0,)]


def test_merged_segments_tell_the_same(timed, ask, monkeypatch):
    monkeypatch.setattr(compaction, "FILES_MERGED", 5)
    before = ask(ROWS)
    for _ in range(9):
        timed.launches(22, 1, at_ns=NOW_NS + 3 * SECOND_NS)
        timed.writer.append("gpu_timings", timings((5, 100, 60)))
        timed.seal()
    compactor = compaction.Compactor(timed.writer, share=1e9)
    assert [compactor.step(NOW_NS) for _ in range(2)] == [True, True]
    after = ask(ROWS)
    assert len(after) == len(before) + 9
    assert [r for r in after if r[1] is not None] == [
        (NOW_NS + 1, 500, "elapsed"),
        (NOW_NS + 4, 300, "elapsed"),
        (NOW_NS + 5, 100, "elapsed"),
    ]


def test_what_is_made_from_it_prefers_the_time_that_was_told(timed, ask):
    told = ask("select gpu_ns, gpu_ns_source from gpu_times where gpu_ns_source = 'elapsed'")
    assert sorted(told) == [(300, "elapsed"), (500, "elapsed")]


def test_an_export_has_the_time_that_was_told(timed, tmp_path):
    import pyarrow.parquet as pq

    with Session(timed.root) as session:
        write_tables(session, "parquet", tmp_path / "out", ["cuda_events"], ExportProgress())
    rows = pq.read_table(tmp_path / "out" / "cuda_events.parquet").to_pylist()
    assert sorted(row["gpu_ns"] for row in rows if row["gpu_ns"] is not None) == [300, 500]
