"""Exports: every row in its tenant's place, read back by others."""

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from cotenant.query.engine.session import Session
from cotenant.views.cli import main
from cotenant.views.export import export
from tests.unit.query.conftest import NOW_NS, SECOND_NS, Recorded
from tests.views.perfetto_reader import read
from tests.virtual import scenarios

EVENTS = ("cuda_events", "nccl_events", "host_events", "io_events")


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    scenario = scenarios.Scenario(tmp_path_factory.mktemp("host") / "store", 23)
    scenario.gpu(steps=101)
    for part in ("collectives", "cpu", "disk", "network", "memory"):
        getattr(scenario, part)()
    return scenario.done(None, [], None).root


def _rows(root, sql, **options):
    with Session(root, **options) as session:
        return [tuple(row.values()) for row in session.ask(sql).rows()]


def _trace(root, tmp_path, **options):
    with Session(root, **options) as session:
        export(session, "perfetto", tmp_path / "a.pftrace")
    return read((tmp_path / "a.pftrace").read_bytes())


def test_every_event_is_a_slice_in_its_tenants_track(host, tmp_path):
    reading = _trace(host, tmp_path)
    found = sorted((tenant, start, end) for tenant, _, _, start, end in reading.slices)
    known = " UNION ALL ".join(
        f"SELECT tenant, timestamp_ns, timestamp_ns + duration_ns FROM {table} "
        "JOIN containers USING (cgroup_id)"
        for table in EVENTS
    )
    spans = "SELECT tenant, start_ns, end_ns FROM spans"
    assert found == sorted(_rows(host, f"{known} UNION ALL {spans}"))


def test_a_launch_is_called_by_its_kernel(host, tmp_path):
    reading = _trace(host, tmp_path)
    found = sorted((t, n, s) for t, _, n, s, _ in reading.slices if n.startswith("layer_"))
    assert found == sorted(
        _rows(
            host,
            "SELECT tenant, kernel_name, timestamp_ns FROM cuda_events JOIN containers "
            "USING (cgroup_id) WHERE op = 'launch' AND kernel_name LIKE 'layer_%'",
        )
    )


def test_levels_and_moments_are_there_too(host, tmp_path):
    reading = _trace(host, tmp_path)
    assert sorted((t, at, v) for t, _, at, v in reading.levels) == sorted(
        _rows(
            host,
            "SELECT tenant, timestamp_ns, bytes FROM gpu_memory JOIN containers USING (cgroup_id)",
        )
    )


def test_slices_that_cross_are_on_tracks_of_their_own(tmp_path):
    scenario = scenarios.Scenario(tmp_path / "store", 1)
    for start, took in ((0, 10), (5, 10), (6, 2), (20, 3)):
        scenario._io("ml/train", start, "read", took, 512)
    root = scenario.done(None, [], None).root
    reading = _trace(root, tmp_path)
    assert sorted(end - start for *_, start, end in reading.slices) == [2, 3, 10, 10]


def test_a_tenant_and_a_time_narrow_a_trace(host, tmp_path):
    reading = _trace(host, tmp_path, tenant="ml/serve")
    assert {tenant for tenant, *_ in reading.slices} == {"ml/serve"}


@pytest.mark.parametrize("kind", ["parquet", "csv", "arrow"])
def test_tables_are_read_back_row_by_row(host, tmp_path, kind):
    with Session(host) as session:
        written = export(session, kind, tmp_path / "out")
        names = {segment.table for segment in session.segments}
        assert {path.name for path in (tmp_path / "out").iterdir()} == {
            f"{name}.{kind}" for name in names
        }
        file = tmp_path / "out" / f"cuda_events.{kind}"
        known = session.ask("FROM cuda_events").table
    if kind == "arrow":
        found = pa.ipc.open_stream(file.read_bytes()).read_all()
    else:
        found = pq.read_table(file) if kind == "parquet" else pyarrow.csv.read_csv(file)
    assert found.num_rows == known.num_rows
    for name in ("timestamp_ns", "kernel_name", "cgroup_id", "duration_ns"):
        assert found[name].to_pylist() == known[name].to_pylist()
    assert written == sum(s.rows for s in session.segments)


def test_only_the_tables_that_were_asked_for_are_written(host, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["export", "csv", "--table", "nccl_events", "--output", str(out), "--store", str(host)]
    assert main(words) == 0
    assert [path.name for path in out.iterdir()] == ["nccl_events.csv"]
    assert capsys.readouterr().out == f"844 rows to {out}\n"


def test_what_is_incomplete_is_said_of_the_tables_that_are_written(store, tmp_path, capsys):
    for table, lost in (("cuda_events", True), ("nccl_events", False)):
        words = ["export", "csv", "--table", table, "--output", str(tmp_path / table)]
        assert main([*words, "--store", str(store)]) == 0
        assert ("lost" in capsys.readouterr().err) is lost


@pytest.mark.parametrize("kind", ["html", "perfetto", "parquet"])
def test_what_is_in_no_table_of_events_is_said_to_be_missing_too(tmp_path, capsys, kind):
    recorded = Recorded(tmp_path / "store")
    recorded.containers()
    recorded.launches(11, 7)
    for reason in ("no room for spans", "no room for allocations"):
        recorded.hole(11, reason, NOW_NS, NOW_NS + SECOND_NS)
    recorded.seal()
    recorded.writer.close()
    words = ["export", kind, "--output", str(tmp_path / "out"), "--store", str(recorded.root)]
    assert main(words) == 0
    lines = capsys.readouterr().err.splitlines()
    said = {line.partition(" missing")[0] for line in lines if line.startswith("incomplete")}
    assert said == {
        "incomplete: operations in spans of train",
        "incomplete: GPU memory of train",
    }
    if kind == "html":
        report = (tmp_path / "out").read_text("utf-8")
        assert all(line in report for line in said)
        assert "; complete" not in report


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["csv", "--table", "cuda"], 2, "no table cuda; choose from cuda_events, "),
        (["perfetto", "--table", "cuda_events"], 2, "--table does not apply to perfetto"),
        (["perfetto", "--tenant", "nobody"], 1, "there is no tenant nobody"),
    ],
)
def test_what_cannot_be_exported_is_said_in_one_line(host, tmp_path, capsys, words, code, said):
    output = str(tmp_path / "out")
    assert main(["export", *words, "--output", output, "--store", str(host)]) == code
    error = capsys.readouterr().err
    assert error.startswith(f"cotenant: {said}")
    assert error.count("\n") == 1


def test_nothing_is_replaced_unasked(host, tmp_path, capsys):
    target = tmp_path / "a.pftrace"
    target.write_text("mine")
    words = ["export", "perfetto", "--output", str(target), "--store", str(host)]
    assert main(words) == 1
    assert capsys.readouterr().err == f"cotenant: {target} exists; --force replaces it\n"
    assert target.read_text() == "mine"
    assert main([*words, "--force"]) == 0
    assert read(target.read_bytes()).slices
