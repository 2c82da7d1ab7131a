"""Old stores: spans are derived once and stored, whenever that is cut short."""

import shutil

import pyarrow.parquet as pq
import pytest

from cotenant.query.engine.session import Session
from cotenant.query.upgrade import to_upgrade, upgrade
from cotenant.store.manifest import current_segments
from cotenant.store.writer import StoreWriter
from cotenant.views.cli import main
from tests.virtual.killing import Killed, killed_before
from tests.virtual.rings import VirtualRecorder, call, stored_and_derived

MS = 1_000_000
SECOND = 1_000 * MS
STEPS = 23
BEGAN = (0, 20 * SECOND)
MADE = ("spans", "span_mixes", "gpu_seconds", "gpu_overlaps", "rollups")


def record(root, at):
    """A recording that begins then: two tenants, three streams, and work that nothing proves."""
    recorder = VirtualRecorder(root)
    for cgroup in (100, 101):
        recorder.cgroup(cgroup, f"/tenant-{cgroup}")
    recorder.began(at)
    for step in range(STEPS):
        now = at + SECOND + step * 10 * MS
        for cgroup, stream in ((100, 5), (100, 6), (101, 5)):
            more = {"cgroup": cgroup, "pid": cgroup, "stream": stream}
            recorder.events.add(
                call("cuLaunchKernel", now + stream, 9, threads=7 + step % 3, **more),
                call("cuMemsetD8Async", now + MS + stream, 9, bytes=512, weight=2, **more),
                call("cuStreamSynchronize", now + 2 * MS + stream, MS, **more),
            )
    recorder.events.add(call("cuLaunchKernel", at + 4 * SECOND, 9, cgroup=101, pid=101, stream=5))
    recorder.cycle(at + 15 * SECOND)
    recorder.finish()


@pytest.fixture
def old(tmp_path):
    """Two recordings as they were before spans were stored."""
    root = tmp_path / "store"
    for at in BEGAN:
        record(root, at)
    with StoreWriter(root, node="node-a", boot_id="boot-1") as writer:
        sessions = [s for s in writer.segments if s.table == "sessions"]
        rows = [pq.ParquetFile(root / s.path).read() for s in sessions]
        writer.supersede([s for s in writer.segments if s.table in MADE], None, 1)
        for row in rows:
            names = [name for name in row.column_names if not name.startswith("spans_")]
            writer.replace("sessions", row.select(names))
        writer.seal(1)
    return root


def of_mixes(root):
    with Session(root) as session:
        sql = """select start_ns, s.stream, s.tenant, kernel_name, m.size, m.count
                   from spans s join span_mixes m using (mix) order by all"""
        return session.ask(sql).rows()


def test_what_is_stored_is_what_was_derived(old):
    shown, derived = stored_and_derived(old)
    assert len(derived) == len(BEGAN) * (3 * STEPS + 1)
    assert shown == derived
    mixes = of_mixes(old)
    assert [one.spans for one in upgrade(old)] == [3 * STEPS + 1] * len(BEGAN)
    stored, derived = stored_and_derived(old)
    assert stored == shown == derived
    assert of_mixes(old) == mixes
    with Session(old) as session:
        rows = session.ask("select count(*) as n from stored.spans").rows()
        assert rows == [{"n": len(shown)}]
        assert session.ask("select count(*) as n from spans_of_rows").rows() == [{"n": 0}]
    assert to_upgrade(old) == []


def test_a_mix_has_the_number_that_the_agent_gives_it(old, tmp_path):
    list(upgrade(old))
    again = tmp_path / "again"
    for at in BEGAN:
        record(again, at)

    def numbers(root):
        with Session(root) as session:
            return session.ask("from stored.span_mixes select distinct mix order by all").rows()

    assert numbers(old) == numbers(again)


def test_cut_short_at_any_moment_it_goes_on_and_no_span_is_lost_or_doubled(old, tmp_path):
    shown, _ = stored_and_derived(old)
    seen, allowed, ended = set(), 0, False
    while not ended:
        place = tmp_path / f"cut-{allowed}"
        shutil.copytree(old, place)
        try:
            with killed_before(allowed):
                list(upgrade(place))
                ended = True
        except Killed:
            allowed += 2
        left = len(to_upgrade(place))
        named = [s for s in current_segments(place) if s.table == "spans"]
        assert len(named) == len(BEGAN) - left, allowed
        if left not in seen or ended:
            seen.add(left)
            assert stored_and_derived(place)[0] == shown, allowed
            list(upgrade(place))
            assert stored_and_derived(place)[0] == shown, allowed
        shutil.rmtree(place)
    assert seen == {0, 1, 2}


def test_the_command_says_what_it_did_and_then_that_nothing_is_left(old, capsys):
    assert main(["upgrade", "--store", str(old)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == [f"{3 * STEPS + 1} spans"] * len(BEGAN)
    assert main(["upgrade", "--store", str(old)]) == 0
    assert "nothing to do" in capsys.readouterr().out


def test_readers_of_a_large_store_say_how_to_convert_it(old, capsys, monkeypatch):
    monkeypatch.setattr("cotenant.query.engine.stored_spans._MANY", 1)
    hint = "slow: spans of 2 recordings are derived each time; `cotenant upgrade` stores them"
    assert main(["ask", "gpu_busy", "--store", str(old)]) == 0
    assert capsys.readouterr().err.count(hint) == 1
    assert main(["ask", "slow_calls", "--store", str(old)]) == 0
    assert hint not in capsys.readouterr().err
    list(upgrade(old))
    assert main(["ask", "gpu_busy", "--store", str(old)]) == 0
    assert "slow" not in capsys.readouterr().err
