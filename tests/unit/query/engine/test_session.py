"""A session: the promised queries, windows, tenants, limits, and stores that change under it."""

import gc
import json
import os
import shutil
import stat
import threading

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cotenant.errors import QuestionError, StoreError, TooLarge
from cotenant.query.engine import session as session_module
from cotenant.query.engine.answer import Interval, Loss
from cotenant.query.engine.session import QueryLimits, Session
from cotenant.query.questions.promises import promise
from cotenant.schema import TABLES
from cotenant.store.writer import StoreWriter

NOW_NS = 1_790_000_000_000_000_000
SECOND_NS = 1_000_000_000

TOP_KERNELS = promise("kernels")
NCCL_COST = promise("nccl")


def test_the_first_promised_query_runs_as_written(ask):
    assert ask(TOP_KERNELS) == [
        ("a" * 64, "gemm", 7, 7.0),
        ("b" * 64, "gemm", 3, 3.0),
        ("b" * 64, "[memcpy HtoD]", 2, 2.0),
    ]


def test_the_second_promised_query_runs_as_written(ask):
    assert ask(NCCL_COST) == [("a" * 64, "AllReduce", 3, 4.0, 6.0)]


def test_every_table_of_the_schema_is_there_with_its_columns(recorded):
    with Session(recorded.root) as session:
        for name, table in TABLES.items():
            shown = f"stored.{name}" if table.united else name
            columns = [row["column_name"] for row in session.ask(f"DESCRIBE {shown}").rows()]
            declared = [column.name for column in table.columns]
            assert columns == declared + ([] if "node" in declared else ["node"])


def test_an_empty_table_has_the_types_of_a_full_one(recorded, tmp_path):
    StoreWriter(tmp_path / "new", node="n", boot_id="b").close()
    with Session(recorded.root) as full, Session(tmp_path / "new") as empty:
        for name in ("cuda_events", "nccl_events", "containers"):
            schema = full.ask(f"FROM {name} LIMIT 0").table.schema
            assert empty.ask(f"FROM {name}").table.schema == schema


def test_no_event_table_shares_a_column_with_containers_but_the_join_and_the_node(recorded):
    containers = {column.name for column in TABLES["containers"].columns} - {"cgroup_id", "node"}
    for name, table in TABLES.items():
        if name.endswith("_events"):
            assert {column.name for column in table.columns} & containers == set()


def test_the_node_of_an_event_is_a_column(ask):
    assert ask("SELECT DISTINCT node FROM cuda_events") == [("node-a",)]


def test_parameters_are_bound_by_name(ask):
    assert ask("SELECT count(*) FROM cuda_events WHERE pid = $pid", {"pid": 22}) == [(5,)]


@pytest.mark.parametrize(
    "tenant", ["ml/serve", "serve", "b" * 64, "bbbb", pytest.param("b" * 12, id="short id")]
)
def test_a_session_of_a_tenant_sees_only_that_tenant(ask, tenant):
    assert ask("SELECT count(*) FROM cuda_events", tenant=tenant) == [(5,)]
    assert ask("SELECT count(*) FROM nccl_events", tenant=tenant) == [(0,)]
    assert ask("SELECT cgroup_id FROM containers", tenant=tenant) == [(22,)]


def test_a_tenant_cannot_read_the_files_past_its_views(ask, recorded):
    with pytest.raises(QuestionError, match="read_parquet"):
        ask(f"FROM read_parquet('{recorded.root}/**/*.parquet')", tenant="serve")
    with pytest.raises(QuestionError, match="is not a table"):
        ask(f"FROM '{recorded.root}/cuda_events/**/*.parquet'", tenant="serve")


def test_rows_of_all_tenants_are_read_in_one_session(recorded, monkeypatch):
    opened, connect = [], session_module.connect

    def counted(*given, **more):
        opened.append(given)
        return connect(*given, **more)

    monkeypatch.setattr(session_module, "connect", counted)
    with Session(recorded.root, tenant="serve") as session:
        for table in ("operation_times", "gpu_use", "interference"):
            session.ask(f"FROM {table}")
    assert len(opened) == 2


def test_a_tenant_that_does_not_exist_is_answered_with_the_nearest(ask):
    with pytest.raises(QuestionError, match="there is no tenant trian; did you mean train"):
        ask("SELECT 1", tenant="trian")


def test_a_window_begins_inclusive_and_ends_exclusive(ask):
    sql = "SELECT count(*) FROM cuda_events"
    assert ask(sql, from_ns=NOW_NS + SECOND_NS) == [(5,)]
    assert ask(sql, to_ns=NOW_NS + SECOND_NS) == [(7,)]
    assert ask(sql, from_ns=NOW_NS, to_ns=NOW_NS + 1) == [(1,)]


def test_since_looks_back_from_the_end_of_the_window(ask):
    end = NOW_NS + 2 * SECOND_NS + 1_000
    assert ask("SELECT count(*) FROM cuda_events", since_ns=SECOND_NS + 1_000, to_ns=end) == [(5,)]


def test_a_window_in_which_nothing_happened_is_empty(ask):
    assert ask("SELECT count(*) FROM cuda_events", from_ns=NOW_NS + 60 * SECOND_NS) == [(0,)]


def test_an_answer_says_which_time_it_covers(recorded):
    with Session(recorded.root) as session:
        assert session.ask("FROM cuda_events").interval == Interval(
            NOW_NS, NOW_NS + 2 * SECOND_NS + 1
        )
        assert session.ask("FROM nccl_events").interval == Interval(NOW_NS, NOW_NS + 2)
        assert session.ask("FROM containers").interval is None


def test_an_answer_says_what_was_lost_of_what_it_touches(recorded):
    recorded.losses(11, seen=1_234, lost=12)
    recorded.losses(22, seen=100, shed=5)
    recorded.losses(11, seen=3, family="nccl")
    recorded.seal()
    with Session(recorded.root) as session:
        cuda = session.ask("SELECT count(*) FROM cuda_events")
        nccl = session.ask("WITH a AS (FROM nccl_events) FROM a")
        who = session.ask("FROM containers")
    assert cuda.losses == (Loss("cuda", seen=1_334, lost=12, shed=5),)
    assert nccl.losses == (Loss("nccl", seen=3, lost=0, shed=0),)
    assert (cuda.complete, nccl.complete, who.losses) == (False, True, ())


def test_what_another_tenant_lost_is_not_counted(recorded):
    recorded.losses(11, seen=1_234, lost=12)
    recorded.losses(22, seen=100)
    recorded.seal()
    with Session(recorded.root, tenant="serve") as session:
        assert session.ask("FROM cuda_events").losses == (Loss("cuda", seen=100, lost=0, shed=0),)


def test_an_answer_is_cut_at_the_row_limit_and_says_so(recorded):
    with Session(recorded.root, limits=QueryLimits(rows=5)) as session:
        answer = session.ask("FROM cuda_events")
        assert (answer.table.num_rows, answer.truncated) == (5, True)
        answer = session.ask("FROM nccl_events")
        assert (answer.table.num_rows, answer.truncated) == (3, False)


def test_a_question_that_takes_too_long_is_stopped(recorded):
    with Session(recorded.root, limits=QueryLimits(seconds=0.1)) as session:
        with pytest.raises(QuestionError, match=r"no answer after 0\.1 s; query less time"):
            session.ask("SELECT count(*) FROM range(1000000000000) WHERE random() < 0")
        assert session.ask("SELECT 1 AS one").rows() == [{"one": 1}]


def test_a_question_that_needs_too_much_memory_is_refused_in_one_line(recorded):
    with Session(recorded.root, limits=QueryLimits(memory_bytes=20 << 20)) as session:
        with pytest.raises(TooLarge, match=r"^this needs more than the 20 MiB .*; query less"):
            session.ask("SELECT list(a) FROM range(100000000) t(a)")


def test_what_does_not_fit_into_memory_is_written_where_only_we_may_enter(
    recorded, tmp_path_factory, monkeypatch
):
    place = tmp_path_factory.mktemp("spill")
    monkeypatch.setenv("TMPDIR", str(place))
    with Session(recorded.root, limits=QueryLimits(memory_bytes=100 << 20)) as session:
        session.ask("SELECT count(*) FROM (SELECT DISTINCT a, hash(a) FROM range(5000000) t(a))")
        [made] = place.iterdir()
        assert list(made.iterdir()), "the question fitted into memory"
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
        assert str(os.getpid()) not in made.name
    del session
    gc.collect()
    assert not list(place.iterdir())


@pytest.mark.parametrize("nowhere", ["the disk may not be used", "there is no such place"])
def test_without_a_place_on_disk_what_fits_into_memory_is_answered(recorded, monkeypatch, nowhere):
    if nowhere == "there is no such place":
        monkeypatch.setenv("TMPDIR", "/nowhere")
    limits = QueryLimits(memory_bytes=100 << 20, spill=nowhere == "there is no such place")
    with Session(recorded.root, limits=limits) as session:
        assert session.ask("SELECT 1 AS one").rows() == [{"one": 1}]
        with pytest.raises(TooLarge, match=r"needs more than the 100 MiB .*; query less"):
            session.ask("SELECT count(*) FROM (SELECT DISTINCT a FROM range(50000000) t(a))")


def test_a_row_sealed_after_the_session_opened_is_seen(recorded):
    with Session(recorded.root) as session:
        recorded.launches(11, 13)
        recorded.seal()
        assert session.ask("SELECT count(*) AS n FROM cuda_events").rows() == [{"n": 25}]


def test_a_file_that_goes_after_the_manifest_was_read_is_answered_without(recorded, monkeypatch):
    with Session(recorded.root) as session:
        victim = next(s for s in session.segments if s.table == "nccl_events")
        (recorded.root / victim.path).unlink()
        monkeypatch.setattr(session, "_refresh_if_changed", lambda: None)
        answer = session.ask("SELECT count(*) AS n FROM nccl_events")
    assert answer.rows() == [{"n": 0}]
    assert (answer.standing.missing_segments, answer.complete) == (1, False)


def test_a_copied_store_answers_the_same(recorded, ask, tmp_path):
    expected = ask(TOP_KERNELS)
    copy = shutil.copytree(recorded.root, tmp_path / "copy")
    with Session(copy) as session:
        assert [tuple(row.values()) for row in session.ask(TOP_KERNELS).rows()] == expected


def test_a_store_without_manifest_answers_the_same(recorded, ask):
    expected = ask(TOP_KERNELS)
    shutil.rmtree(recorded.root / "manifest")
    hidden = next((recorded.root / "cuda_events").rglob("*.parquet")).with_name(".1-1.parquet.part")
    hidden.write_bytes(b"half")
    assert ask(TOP_KERNELS) == expected


def test_two_nodes_under_one_prefix_are_one_fleet(recorded, ask):
    rows = pq.ParquetFile(next((recorded.root / "cuda_events").rglob("*.parquet"))).read()
    with StoreWriter(recorded.root, node="node-b", boot_id="boot-9") as other:
        other.append("cuda_events", rows)
        other.seal(NOW_NS)
    assert ask("SELECT node, count(*) FROM cuda_events GROUP BY node ORDER BY node") == [
        ("node-a", 12),
        ("node-b", 12),
    ]


def test_a_segment_of_an_older_schema_has_null_in_newer_columns(recorded, ask):
    file = next((recorded.root / "nccl_events").rglob("*.parquet"))
    older = pq.ParquetFile(file).read().drop_columns(["group_id", "weight"])
    pq.write_table(older, file)
    shutil.rmtree(recorded.root / "manifest")
    assert ask("SELECT DISTINCT group_id, weight, op FROM nccl_events") == [
        (None, None, "AllReduce")
    ]


def test_spark_style_readers_find_the_promised_columns_by_folder(recorded):
    found = duckdb.sql(
        f"SELECT node, date::VARCHAR, count(*) FROM '{recorded.root}/cuda_events/**/*.parquet' "
        "GROUP BY ALL"
    ).fetchall()
    assert found == [("node-a", "2026-09-21", 12)]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "no store at .*; record one with `cotenant record`"),
        (lambda path: path.mkdir(), "is empty; record one"),
        (lambda path: (path.mkdir(), (path / "x").write_text("")), "is not a store; record one"),
        (lambda path: path.write_text("x"), "is a file, not a store"),
    ],
)
def test_what_is_no_store_is_said_in_words(tmp_path, make, words):
    make(tmp_path / "place")
    with pytest.raises(StoreError, match=words):
        Session(tmp_path / "place")


def test_a_store_with_no_rows_yet_answers_with_none(tmp_path):
    StoreWriter(tmp_path / "new", node="n", boot_id="b").close()
    with Session(tmp_path / "new") as session:
        assert session.ask(TOP_KERNELS).rows() == []


def test_threads_may_share_a_session(recorded):
    answers = []
    with Session(recorded.root) as session:

        def work():
            for _ in range(5):
                answers.append(session.ask(TOP_KERNELS).table.num_rows)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [3] * 15


def test_a_snapshot_that_is_replaced_again_and_again_is_read_in_one_version(recorded):
    done = threading.Event()

    def replace_it(version):
        rows = {
            "cgroup_id": range(101, 198),
            "cgroup_path": ["/x"] * 97,
            "container_id": [str(version)] * 97,
            "tenant": [f"{row % (1 + version * 7 % 89)} of {version}" for row in range(97)],
            "node": ["node-a"] * 97,
            "boot_id": ["boot-1"] * 97,
            "named_ns": [version] * 97,
        }
        recorded.writer.replace("containers", pa.table(rows))
        recorded.seal()

    def replace_again_and_again():
        version = 1
        while not done.is_set():
            version += 1
            replace_it(version)

    question = """
        SELECT count(*), count(DISTINCT c.named_ns) FROM containers c JOIN containers d
        USING (cgroup_id) WHERE c.container_id = split_part(d.tenant, ' of ', 2)
        AND d.named_ns::VARCHAR = c.container_id AND cgroup_id > 100
    """
    replace_it(1)
    replacing = threading.Thread(target=replace_again_and_again)
    replacing.start()
    try:
        for _ in range(11):
            with Session(recorded.root) as session:
                for _ in range(5):
                    assert [tuple(r.values()) for r in session.ask(question).rows()] == [(97, 1)]
    finally:
        done.set()
        replacing.join()


def test_no_container_is_missed_or_met_twice_while_pages_are_split_off(recorded, monkeypatch):
    monkeypatch.setattr("cotenant.store.snapshot.PAGE_ROWS", 23)
    done = threading.Event()

    def come_and_go():
        number = 100
        while not done.is_set():
            number += 1
            row = {"cgroup_id": [number], "cgroup_path": ["/x"], "container_id": ["x"]}
            row |= {"tenant": ["t"], "node": ["node-a"], "boot_id": ["boot-1"], "removed_ns": [1]}
            recorded.writer.replace("containers", pa.table(row))
            recorded.seal()

    coming = threading.Thread(target=come_and_go)
    coming.start()
    try:
        asked = before = 0
        with Session(recorded.root) as session:
            while asked < 53 or before <= 23:
                asked += 1
                [(count, distinct, last)] = [
                    tuple(row.values())
                    for row in session.ask(
                        "SELECT count(*), count(DISTINCT cgroup_id), max(cgroup_id) "
                        "FROM containers WHERE cgroup_id > 100"
                    ).rows()
                ]
                assert count == distinct == (last or 100) - 100 >= before
                before = count
    finally:
        done.set()
        coming.join()


def test_a_store_that_could_not_be_read_is_not_taken_for_read(recorded):
    with Session(recorded.root) as session:
        [file] = recorded.root.glob("containers/*/*/*.parquet")
        whole = file.read_bytes()
        recorded.launches(11, 5, at_ns=NOW_NS + 9 * SECOND_NS)
        recorded.seal()
        file.write_bytes(b"torn")
        for _ in range(2):
            with pytest.raises(StoreError, match="restore that file"):
                session.ask("SELECT count(*) AS n FROM cuda_events")
        file.write_bytes(whole)
        assert session.ask("SELECT count(*) AS n FROM cuda_events").rows() == [{"n": 17}]


def test_what_a_kernel_could_not_give_is_told_with_each_answer_that_needs_it(recorded):
    refused = {
        "net_send": "not recorded: no net events (this kernel has no sock_send_length)",
        "io_start": "not recorded: time in the queue, and who read (this kernel has no such hook)",
    }
    session_row = dict.fromkeys(column.name for column in TABLES["sessions"].columns)
    session_row |= {"session_id": "s", "node": "n", "boot_id": "b", "kernel": "6.1"}
    session_row |= {"started_ns": NOW_NS, "ended_ns": NOW_NS + 9 * SECOND_NS, "wall_offset_ns": 0}
    session_row |= {"attach_method": "pair", "layers": "both", "hierarchy": "v2"}
    session_row |= {"notes": json.dumps({"hooks_refused": refused})}
    recorded.writer.replace("sessions", pa.Table.from_pylist([session_row]))
    recorded.seal()
    with Session(recorded.root) as session:
        assert session.ask("FROM net_events").standing.unrecorded == (
            "not recorded: no net events",
        )
        told = session.ask("FROM io_events").standing
        assert told.unrecorded == ("not recorded: time in the queue, and who read",)
        assert not told.complete
        assert session.ask("FROM cuda_events").standing.unrecorded == ()
    with Session(recorded.root, from_ns=NOW_NS + 10 * SECOND_NS) as later:
        assert later.ask("FROM net_events").standing.unrecorded == ()
