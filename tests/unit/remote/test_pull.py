"""Rows on demand: those of a node and time, into a store of one's own."""

import pytest

from cotenant.remote.shipped import ALL_ROWS
from cotenant.schema.holes import TOLD_WITHIN_NS
from cotenant.views.cli import main
from tests.unit.remote.fleet import MIDNIGHT_NS, MINUTE_NS, all_rows, rows_in
from tests.unit.remote.s3_server import upload

FROM_NS, TO_NS = MIDNIGHT_NS - 3 * MINUTE_NS, MIDNIGHT_NS + 4 * MINUTE_NS
# In whole windows.
FIRST_NS, END_NS = MIDNIGHT_NS - 10 * MINUTE_NS, MIDNIGHT_NS + 10 * MINUTE_NS
EARLIER = ("limits", "gpu_memory", "graph_kernels", "imported_times", "span_mixes")


@pytest.fixture
def recorded(fleet, tmp_path):
    for number in range(2):
        fleet.record(f"node-{number}", number + 1)
    return fleet


def pull(store, into, from_ns=FROM_NS, to_ns=TO_NS):
    words = ["--node", "node-1", "--from", str(from_ns), "--to", str(to_ns)]
    return main(["pull", *words, "--store", str(store), "--into", str(into)])


def expected(root):
    found = {}
    for table, rows in all_rows(root).items():
        own = [row for row in rows if row[0] == "node-1"]
        if table in ("containers", "sessions"):
            found[table] = own
        else:
            first_ns = 0 if table in EARLIER else FIRST_NS
            # What was lost is told later.
            end_ns = END_NS + TOLD_WITHIN_NS if table == "losses" else END_NS
            found[table] = [row for row in own if first_ns <= row[1] < end_ns]
    return found


def test_rows_of_a_window_come_and_come_once(recorded, tmp_path, capsys):
    into = tmp_path / "case"
    assert pull(recorded.root, into) == 0
    assert all_rows(into) == expected(recorded.root)
    assert pull(recorded.root, into) == 0
    assert "node-1: 0 objects" in capsys.readouterr().out
    assert (
        pull(recorded.root, into, MIDNIGHT_NS - 60 * MINUTE_NS, MIDNIGHT_NS + 60 * MINUTE_NS) == 0
    )
    assert rows_in(into, "cuda_events") == [
        row for row in rows_in(recorded.root, "cuda_events") if row[0] == "node-1"
    ]


def test_rows_come_from_a_bucket_that_has_them(recorded, s3, bucket, tmp_path, monkeypatch):
    monkeypatch.setenv("COTENANT_CACHE", str(tmp_path / "cache"))
    recorded.ship(tables=ALL_ROWS)
    upload(s3, bucket, "rows", recorded.far)
    assert pull("s3://fleet/rows", tmp_path / "case") == 0
    assert all_rows(tmp_path / "case") == expected(recorded.root)


def test_a_store_without_rows_says_so(recorded, tmp_path, capsys):
    recorded.ship()
    assert pull(recorded.far, tmp_path / "case") == 0
    assert "has no rows of node-1 then" in capsys.readouterr().err


def test_what_makes_no_sense_is_one_line(recorded, tmp_path, capsys):
    assert pull(recorded.root, tmp_path / "case", TO_NS, FROM_NS) == 2
    assert pull(recorded.root, recorded.root) == 1
    assert pull(tmp_path / "none", tmp_path / "case") == 1
    lines = capsys.readouterr().err.splitlines()
    assert [word in line for line, word in zip(
        lines, ("is not before", "is recorded into", "no store at"), strict=True
    )] == [True] * 3  # fmt: skip
