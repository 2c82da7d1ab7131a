"""Shipping into a directory: everything arrives once, whenever it was stopped."""

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from cotenant.errors import StoreError
from cotenant.query.engine.session import Session
from cotenant.remote.near import NearNode
from cotenant.remote.place import FarDirectory
from cotenant.remote.plan import Closing
from cotenant.remote.ship import Shipper
from cotenant.remote.shipped import ALL_ROWS, BY_MINUTE
from cotenant.schema import TABLES
from cotenant.schema.folding import ROLLUP_TABLES
from cotenant.store.compaction import Compactor
from cotenant.store.folding import Folding
from cotenant.store.manifest import current_segments, read_manifest
from cotenant.store.nodes import all_nodes
from cotenant.store.retention import USED_LATER, Retention, RetentionLimits
from cotenant.store.writer import StoreWriter
from cotenant.views.cli import main
from tests.unit.remote.fleet import (
    DAY_NS,
    FROM_NS,
    MIDNIGHT_NS,
    MINUTE_NS,
    NOW_NS,
    RECORDED,
    TO_NS,
    all_rows,
    containers,
    made_up,
    rows_in,
    session_row,
)

NODES = 20


class Crash(BaseException):
    """As if the process were killed there."""


class Crashing(FarDirectory):
    """Ends the process after so many puts: before or after the last of them is there."""

    def __init__(self, root, puts, *, after):
        super().__init__(root)
        self._left = puts
        self._after = after

    def write(self, path, content, pace):
        self._left -= 1
        if self._left < 0 and not self._after:
            raise Crash
        super().write(path, content, pace)
        if self._left < 0:
            raise Crash


def ship_with_crashes(fleet, every, tables):
    """Starts anew after each crash; how often that was."""
    crashes = 0
    closing = Closing(NOW_NS, at_rest=True)
    for node in all_nodes(fleet.root):
        while True:
            place = Crashing(fleet.far, every, after=crashes % 2)
            try:
                Shipper(NearNode(fleet.root, node), place, tables).ship(closing)
                break
            except Crash:
                crashes += 1
                check_consistent(fleet.far)
    return crashes


def check_consistent(root):
    """Whatever a manifest names is there, and no row twice."""
    if not (root / "manifest").exists():
        return
    for segment in current_segments(root):
        assert (root / segment.path).stat().st_size == segment.bytes


@pytest.mark.parametrize(("every", "count"), [(1, 1), (5, 3), (47, NODES)])
def test_the_far_store_equals_the_near_one_after_crashes(fleet, every, count):
    some = ("rollups", "losses", "totals", "spans")
    for number in range(count):
        tables = RECORDED if count == NODES else some
        fleet.record(f"node-{number}", number + 1, tables=tables)
    assert ship_with_crashes(fleet, every, ALL_ROWS) >= count
    assert all_rows(fleet.far) == all_rows(fleet.root)
    assert fleet.ship(tables=ALL_ROWS) == 0


def test_a_reader_pointed_at_it_just_works(fleet):
    fleet.record("node-a", 1)
    fleet.ship(tables=ALL_ROWS)
    sql = (
        "SELECT e.node, tenant, count(*) AS rows FROM cuda_events e "
        "LEFT JOIN containers USING (cgroup_id) GROUP BY ALL ORDER BY ALL"
    )
    answers = []
    for store in (fleet.root, fleet.far):
        with Session(store) as session:
            answers.append(session.ask(sql).rows())
            assert session.standing(["cuda_events"]).missing_segments == 0
    assert answers[0] == answers[1]


def test_by_default_seconds_become_minutes_and_rows_stay(fleet):
    fleet.record("node-a", 1)
    fleet.ship()
    with Session(fleet.root) as near, Session(fleet.far) as far:
        folded = near.ask(
            "SELECT timestamp_ns // 60000000000 * 60000000000 AS minute, cgroup_id, family, "
            "op, name, sum(count)::BIGINT, sum(sum_ns)::BIGINT, max(max_ns), "
            "sum(bytes)::BIGINT, 60 FROM rollups GROUP BY ALL ORDER BY ALL"
        )
        # By the view that shows seconds, minutes and hours alike.
        there = far.ask("SELECT * EXCLUDE node FROM rollups ORDER BY ALL")
        assert [tuple(r.values()) for r in there.rows()] == [
            tuple(r.values()) for r in folded.rows()
        ]
    for table in ("containers", "sessions", "limits", "gpu_memory"):
        assert rows_in(fleet.far, table) == rows_in(fleet.root, table)
    assert rows_in(fleet.far, "cuda_events") == []


def test_rows_may_follow_what_was_sent_by_the_minute(fleet):
    fleet.record("node-a", 1)
    fleet.ship()
    minutes = rows_in(fleet.far, "rollup_minutes")
    fleet.ship(tables=ALL_ROWS)
    far, near = all_rows(fleet.far), all_rows(fleet.root)
    assert {t for t in TABLES if far[t] != near[t]} <= ROLLUP_TABLES
    # A time is told by one of the tables.
    assert far["rollup_minutes"] == minutes
    assert far["rollups"] == []
    # And what was sent whole stays whole.
    assert fleet.ship() == 0


def test_seconds_that_were_sent_are_not_sent_as_the_minutes_they_become(fleet):
    fleet.record("node-a", 1, tables=("rollups",))
    fleet.ship(tables=ALL_ROWS)
    sent = rows_in(fleet.far, "rollups")
    with StoreWriter(fleet.root, node="node-a", boot_id="boot") as writer:
        assert Folding(writer, share=1.0).step(NOW_NS + DAY_NS)
    assert rows_in(fleet.root, "rollups") == []
    fleet.ship(tables=ALL_ROWS, now_ns=NOW_NS + DAY_NS)
    assert rows_in(fleet.far, "rollups") == sent
    assert rows_in(fleet.far, "rollup_minutes") == []


def test_minutes_are_made_of_seconds_and_of_minutes(fleet):
    fleet.record("node-a", 1, tables=("rollups",))
    other = fleet.far.with_name("other")
    fleet.ship(now_ns=NOW_NS + DAY_NS)
    with StoreWriter(fleet.root, node="node-a", boot_id="boot") as writer:
        assert Folding(writer, share=1.0).step(NOW_NS + DAY_NS)
    fleet.ship(FarDirectory(other), now_ns=NOW_NS + DAY_NS)
    assert rows_in(other, "rollup_minutes") == rows_in(fleet.far, "rollup_minutes")
    assert fleet.ship(now_ns=NOW_NS + DAY_NS) == 0


def test_a_node_of_another_machine_is_refused_unless_it_is_taken_over(fleet):
    fleet.record("node-a", 1, tables=("rollups",), machine="one")
    fleet.ship()
    shutil.rmtree(fleet.root)
    fleet.record("node-a", 1, tables=("rollups", "totals"), machine="two")
    with pytest.raises(StoreError, match="node-a that was recorded on another machine"):
        fleet.ship(tables=ALL_ROWS)
    (shipper,) = fleet.shippers(tables=ALL_ROWS)
    shipper.takes_over = True
    shipper.ship(Closing(NOW_NS, at_rest=True))
    assert rows_in(fleet.far, "totals") == rows_in(fleet.root, "totals")


def test_a_closed_day_is_one_object_and_the_last_hours_are_windows(fleet):
    fleet.record("node-a", 1, tables=("rollups",))
    fleet.ship()
    names = [s.path for s in current_segments(fleet.far) if s.table == "rollup_minutes"]
    days = [name for name in names if "-86400-" in name]
    assert len(days) == 1
    assert len(names) > 1
    assert all("-600-" in name for name in names if name not in days)
    later = NOW_NS + DAY_NS
    fleet.ship(now_ns=later)
    names = [s.path for s in current_segments(fleet.far) if s.table == "rollup_minutes"]
    assert len(names) == 2
    assert all("-86400-" in name for name in names)
    there = {
        str(f.relative_to(fleet.far)) for f in (fleet.far / "rollup_minutes").rglob("*.parquet")
    }
    assert there == set(names)
    assert fleet.ship(now_ns=later) == 0


def record_live(writer, seed, count, from_ns, to_ns):
    rows = made_up(TABLES["rollups"], count, random.Random(seed), from_ns=from_ns, to_ns=to_ns)
    writer.append("rollups", rows)
    writer.seal(to_ns)


def test_a_window_is_sent_when_it_is_closed_and_late_rows_with_the_next(fleet):
    start = NOW_NS // (10 * MINUTE_NS) * 10 * MINUTE_NS
    place = FarDirectory(fleet.far)

    def sent(minutes):
        near = NearNode(fleet.root, "node-a")
        shipper = Shipper(near, place, ALL_ROWS)
        return shipper.ship(Closing(start + minutes * MINUTE_NS))[0].objects

    with StoreWriter(fleet.root, node="node-a", boot_id="boot") as writer:
        writer.replace("containers", containers("node-a", [1]))
        writer.replace("sessions", session_row("node-a", start))
        record_live(writer, 1, 7, start, start + 10 * MINUTE_NS)
        assert sent(10) == 0
        assert sent(11) == 4  # The window, two snapshots, the manifest.
        writer.replace("containers", containers("node-a", [1, 2]))
        record_live(writer, 2, 5, start, start + 10 * MINUTE_NS)
        record_live(writer, 3, 3, start + 10 * MINUTE_NS, start + 20 * MINUTE_NS)
        assert sent(12) == 0
        assert sent(21) == 4  # Both windows, one snapshot, the manifest.
        assert sent(22) == 0
    assert all_rows(fleet.far) == all_rows(fleet.root)


def test_what_is_merged_meanwhile_is_not_sent_again(fleet):
    with StoreWriter(fleet.root, node="node-a", boot_id="boot") as writer:
        for number in range(40):
            record_live(writer, number, 3, FROM_NS, TO_NS)
        before = rows_in(fleet.root, "rollups")
        fleet.ship(tables=ALL_ROWS)
        assert Compactor(writer, share=1.0).step(NOW_NS + 2 * DAY_NS)
    assert rows_in(fleet.root, "rollups") == before
    assert fleet.ship(tables=ALL_ROWS) == 0
    assert rows_in(fleet.far, "rollups") == before


def test_what_the_node_let_go_stays_there_and_is_folded(fleet):
    fleet.record("node-a", 1)
    fleet.ship(tables=ALL_ROWS, folds=False)
    before = all_rows(fleet.far)
    with StoreWriter(fleet.root, node="node-a", boot_id="boot") as writer:
        Retention(writer, RetentionLimits(keep_ns=1)).step(NOW_NS + DAY_NS)
    assert rows_in(fleet.root, "cuda_events") == []
    fleet.ship(tables=ALL_ROWS, now_ns=NOW_NS + 2 * DAY_NS)
    assert all_rows(fleet.far) == before
    assert all("-86400-" in s.path for s in current_segments(fleet.far) if s.key is None)


def test_days_older_than_they_are_kept_go_from_there_and_stay_away(fleet):
    fleet.record("node-a", 1)
    fleet.ship(tables=ALL_ROWS)
    (shipper,) = fleet.shippers(tables=ALL_ROWS)
    before, keep = all_rows(fleet.far), Closing(NOW_NS, at_rest=True, keep_ns=MINUTE_NS * 60)
    assert shipper.ship(keep)[0].objects == 1  # The manifest.
    kept = all_rows(fleet.far)
    for table in TABLES:
        stays = table in USED_LATER or TABLES[table].snapshot
        rows = [row for row in before[table] if stays or row[1] >= MIDNIGHT_NS]
        assert kept[table] == rows, table
    assert kept["cuda_events"] != before["cuda_events"]
    there = {str(f.relative_to(fleet.far)) for f in fleet.far.rglob("*.parquet")}
    assert there == {s.path for s in current_segments(fleet.far)}
    # Neither this shipper nor one that starts anew sends them again.
    for one in (shipper, *fleet.shippers(tables=ALL_ROWS)):
        assert one.ship(keep)[0].objects == 0


def test_an_object_that_is_gone_is_sent_again(fleet):
    fleet.record("node-a", 1)
    fleet.ship(tables=ALL_ROWS)
    newest = max((s for s in current_segments(fleet.far) if s.key is None), key=lambda s: s.path)
    (fleet.far / newest.path).unlink()
    assert fleet.ship(tables=ALL_ROWS) == 2
    assert all_rows(fleet.far) == all_rows(fleet.root)


def test_what_a_crash_left_is_removed_where_something_stands_for_it(fleet):
    fleet.record("node-a", 1, tables=("rollups",))
    fleet.ship(folds=False)
    windows = {s.path for s in current_segments(fleet.far) if s.table == "rollup_minutes"}
    kept = {path: (fleet.far / path).read_bytes() for path in windows}
    fleet.ship(now_ns=NOW_NS + DAY_NS)
    for path, content in kept.items():
        (fleet.far / path).write_bytes(content)
    fleet.ship(now_ns=NOW_NS + DAY_NS)
    assert not any((fleet.far / path).exists() for path in windows)


def test_nothing_is_shipped_into_the_store_that_the_node_is_recorded_into(fleet):
    fleet.record("node-a", 1)
    before = read_manifest(fleet.root / "manifest" / "node-a.json")
    with pytest.raises(StoreError, match="node-a is recorded into"):
        fleet.ship(FarDirectory(fleet.root))
    assert read_manifest(fleet.root / "manifest" / "node-a.json") == before


def test_a_full_disk_is_one_line_and_loses_nothing(fleet, monkeypatch):
    fleet.record("node-a", 1)
    real = FarDirectory.write

    def full(self, path, content, pace):
        if path.startswith("losses/"):
            raise StoreError(f"cannot write {path}: the disk is full; free some space")
        real(self, path, content, pace)

    monkeypatch.setattr(FarDirectory, "write", full)
    with pytest.raises(StoreError, match="the disk is full"):
        fleet.ship(tables=ALL_ROWS)
    monkeypatch.undo()
    fleet.ship(tables=ALL_ROWS)
    assert all_rows(fleet.far) == all_rows(fleet.root)


def test_a_killed_process_leaves_what_the_next_one_completes(fleet):
    fleet.record("node-a", 1)
    command = [Path(sys.executable).with_name("cotenant"), "ship", "--rows", "--once"]
    command += ["--store", str(fleet.root), "--to", str(fleet.far), "--bandwidth", "30k"]
    for seconds in (1.5, 2.0, 2.5):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        time.sleep(seconds)
        process.kill()
        process.wait()
        check_consistent(fleet.far)
    subprocess.run([*command[:-2]], check=True, stdout=subprocess.DEVNULL)
    assert all_rows(fleet.far) == all_rows(fleet.root)


def test_a_table_of_a_later_version_is_left_to_that_version(fleet):
    fleet.record("node-a", 1, tables=("rollups",))
    path = fleet.root / "manifest" / "node-a.json"
    text = path.read_text().replace('"table": "rollups"', '"table": "rollups_of_tomorrow"')
    path.write_text(text)
    fleet.ship(tables=ALL_ROWS)
    assert rows_in(fleet.far, "rollups") == []


def test_only_communicators_that_span_nodes_travel():
    change = next(s.change for s in BY_MINUTE if s.table == "nccl_events")
    rows = pa.table(
        {
            "comm_hash": [1, 1, 2, 2, None, None, 3],
            "rank": pa.array([0, 1, 0, 1, None, None, None], pa.int32()),
            "nranks": pa.array([2, 2, 4, 4, None, None, 2], pa.int32()),
            "group_id": [None, None, 7, None, 7, 8, None],
        }
    )
    assert change([rows]).column("comm_hash").to_pylist() == [2, 2, None, 3]


def test_a_damaged_segment_is_one_line(fleet):
    fleet.record("node-a", 1, tables=("limits",))
    segment = next(s for s in current_segments(fleet.root) if s.table == "limits")
    content = (fleet.root / segment.path).read_bytes()
    for damaged in (b"no parquet", content[:40] + b"\xff" * 200 + content[240:]):
        (fleet.root / segment.path).write_bytes(damaged)
        with pytest.raises(StoreError, match=r"^cannot read .*limits.*; restore that file"):
            fleet.ship()


def test_a_recording_that_replaces_its_files_is_not_at_rest(fleet, monkeypatch):
    fleet.record("node-a", 1, tables=("limits",))
    near = NearNode(fleet.root, "node-a")
    assert near.at_rest()
    gone = next(s for s in current_segments(fleet.root) if s.table == "sessions")
    real = near.refresh

    def refresh():
        real()
        (fleet.root / gone.path).unlink(missing_ok=True)

    monkeypatch.setattr(near, "refresh", refresh)
    assert not near.at_rest()


def test_a_node_of_any_name_moves_no_cursor(fleet, capsys):
    fleet.record("node-a", 1, tables=("limits",))
    shutil.rmtree(fleet.root / "manifest")
    for folder in fleet.root.glob("*/*/node=node-a"):
        folder.rename(folder.with_name("node=evil\x1b[2J"))
    main(["ship", "--once", "--store", str(fleet.root), "--to", str(fleet.far)])
    out, err = capsys.readouterr()
    assert "evil" in out + err
    assert "\x1b" not in out + err
