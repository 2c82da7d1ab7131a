"""Stores that earlier versions wrote are read as they were, and answer as they did."""

import json
import shutil
from pathlib import Path

import pytest

from cotenant.query.questions.loader import questions
from cotenant.query.questions.promises import NAMES
from cotenant.schema import TABLES
from cotenant.store.compaction import Compactor
from cotenant.store.writer import StoreWriter
from tests.data.write_store import ANSWERS, DAY_NS, ROWS, STORES, answer, answers, rows_of

GOLDEN = sorted(STORES.iterdir())
OF_THEN = [table for table in TABLES if table in json.loads(ROWS.read_text("utf-8"))]

# They compare nodes, and each of these stores has one.
OF_SEVERAL_NODES = {"job_nodes", "slow_nodes"}


@pytest.fixture(params=GOLDEN, ids=lambda root: root.name)
def golden(request):
    return request.param


def _plain(value):
    """Nine digits of a number: what no processor and no order of adding up changes."""
    return float(f"{value:.9g}") if isinstance(value, float) else value


def in_order(rows):
    """The rows by what they say; some answers are in no order."""
    plain = [{name: _plain(value) for name, value in row.items()} for row in rows]
    return sorted(plain, key=lambda row: json.dumps(row, sort_keys=True))


def stored(root, table):
    columns = ", ".join(column.name for column in TABLES[table].columns)
    return answer(root, "sql", f"SELECT {columns} FROM {table}", "--format", "json")


def test_there_is_a_store_of_each_format():
    assert [root.name for root in GOLDEN] == ["stored-spans"]


@pytest.mark.parametrize("table", OF_THEN)
def test_every_row_is_read_as_it_was_written(golden: Path, table: str):
    rows = stored(golden, table)
    assert rows
    assert in_order(rows) == in_order(rows_of(table))


def test_every_question_is_answered_as_it_was(golden: Path):
    expected = json.loads(ANSWERS.read_text("utf-8"))
    assert set(expected["promised"]) == set(NAMES)
    assert set(expected["asked"]) == set(questions())
    found = answers(golden)
    for kind, by_name in expected.items():
        for name, rows in by_name.items():
            assert rows or name in OF_SEVERAL_NODES, name
            assert in_order(found[kind][name]) == in_order(rows), name


def test_what_is_merged_anew_keeps_every_row(golden: Path, tmp_path: Path):
    root = tmp_path / "store"
    shutil.copytree(golden, root)
    start_ns = rows_of("cuda_events")[0]["timestamp_ns"]
    with StoreWriter(root, node="node-a", boot_id="boot-1") as writer:
        before = len(writer.segments)
        compactor = Compactor(writer, share=1e9)
        while compactor.step(start_ns + 7 * DAY_NS):
            pass
        assert len(writer.segments) < before
    for table in OF_THEN:
        assert in_order(stored(root, table)) == in_order(rows_of(table)), table
