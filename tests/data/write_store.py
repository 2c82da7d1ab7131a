"""``python -m tests.data.write_store NAME``: rows.json as a store, written by the code of the day.

A store stays as it was written. When the format changes, write one more, under a name that says
what is new in it; when the questions change, ``--answers`` writes answers.json again.
"""

import contextlib
import io
import json
import sys
from pathlib import Path

import pyarrow as pa

from cotenant.query.questions.loader import questions
from cotenant.query.questions.promises import NAMES, promise
from cotenant.schema import TABLES
from cotenant.store.compaction import Compactor
from cotenant.store.segment import arrow_schema
from cotenant.store.writer import StoreWriter
from cotenant.views.cli import main
from tests.virtual.spanned import spans_of

HERE = Path(__file__).parent
ROWS = HERE / "rows.json"
ANSWERS = HERE / "answers.json"
STORES = HERE / "stores"
DAY_NS = 86_400_000_000_000
SEALS = 3


def rows_of(table):
    """The table's rows as they were written; NULL where a column is not named."""
    none = {"columns": [], "rows": []}
    given = json.loads(ROWS.read_text("utf-8")).get(table, none)
    missing = {column.name: None for column in TABLES[table].columns}
    return [missing | dict(zip(given["columns"], row, strict=True)) for row in given["rows"]]


def write(root):
    """Most rows in merged segments, the last ones in segments as a seal leaves them."""
    start_ns = rows_of("cuda_events")[0]["timestamp_ns"]
    grow = [name for name, table in TABLES.items() if not table.snapshot]
    with StoreWriter(root, node="node-a", boot_id="boot-1") as writer:
        for name in (name for name in TABLES if name not in grow):
            writer.replace(name, arrow(name, rows_of(name)))
        spans = dict(spans_of([arrow("cuda_events", rows_of("cuda_events"))]))
        for name, rows in spans.items():
            writer.append(name, rows)
        for part in range(SEALS):
            if part == SEALS - 1:
                _merge(writer, start_ns + DAY_NS)
            for name in grow:
                writer.append(name, arrow(name, rows_of(name)[part::SEALS]))
            writer.seal(start_ns + part)


def arrow(table, rows):
    """The rows as the writer wants them."""
    return pa.Table.from_pylist(rows, schema=arrow_schema(TABLES[table]))


def _merge(writer, now_ns):
    """All that was sealed, and none of it left beside what it became."""
    compactor = Compactor(writer, share=1e9)
    for later in range(3):
        while compactor.step(now_ns + later * DAY_NS):
            pass


def answer(root, *words):
    """What ``cotenant`` prints about the store, as JSON."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        assert main([*words, "--store", str(root)]) == 0
    return json.loads(out.getvalue())


def answers(root):
    """Both promised queries and every question, by name."""
    promised = {name: answer(root, "sql", promise(name), "--format", "json") for name in NAMES}
    asked = {name: answer(root, "ask", name, "--json")["rows"] for name in questions()}
    return {"promised": promised, "asked": asked}


def _one_line_each(answers):
    blocks = []
    for kind, by_name in answers.items():
        lists = (
            f"{json.dumps(name)}: [\n"
            + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
            + "\n]"
            for name, rows in by_name.items()
        )
        blocks.append(f'"{kind}": {{\n' + ",\n".join(lists) + "\n}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"


if __name__ == "__main__":
    if sys.argv[1] == "--answers":
        ANSWERS.write_text(_one_line_each(answers(min(STORES.iterdir()))), "utf-8")
    else:
        write(STORES / sys.argv[1])
