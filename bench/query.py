"""How long the first promised query takes: through our session, bare DuckDB, and SQLite.

    python bench/query.py [--rows 20000000] [--runs 5] [--sqlite-rows 500000]

Rows come from ``rows.py``, are sealed as a recording would (100,000 rows each) and compacted.
DuckDB bare and our session are timed in turn, each run with a fresh connection, and the median is
printed. SQLite gets a part of the rows, one INSERT each with a commit every 500 rows, two indexes
and a write-ahead log, as agents do that keep events in it; its times are scaled up to all rows,
which flatters it, because its indexes deepen and its file outgrows the page cache.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from rows import START_NS, cgroup_ids, cuda_rows

from cotenant.query.engine.session import Session
from cotenant.query.questions.promises import promise
from cotenant.schema import TABLES
from cotenant.store.compaction import Compactor
from cotenant.store.graveyard import GRACE_NS
from cotenant.store.writer import StoreWriter

SEAL_ROWS = 100_000
QUERY = promise("kernels")


def containers() -> pa.Table:
    count = len(cgroup_ids())
    return pa.table(
        {
            "cgroup_id": cgroup_ids(),
            "container_id": [f"{i:064x}" for i in range(count)],
            "tenant": [f"tenant-{i}" for i in range(count)],
            "node": ["bench"] * count,
            "boot_id": ["bench"] * count,
        }
    )


def fill(root: Path, rows: int) -> dict[str, float]:
    """Write the store; what sealing cost, and what it takes on disk."""
    wall = cpu = 0.0
    with StoreWriter(root, node="bench", boot_id="bench") as store:
        store.replace("containers", containers())
        made, start_ns = 0, START_NS
        while made < rows:
            batch = cuda_rows(min(SEAL_ROWS, rows - made), seed=made, start_ns=start_ns)
            wall_0, cpu_0 = time.monotonic(), time.process_time()
            store.append("cuda_events", batch)
            store.seal(start_ns)
            wall += time.monotonic() - wall_0
            cpu += time.process_time() - cpu_0
            made += batch.num_rows
            start_ns = batch["timestamp_ns"][-1].as_py()
        compactor, cpu_0 = Compactor(store, share=1e9), time.process_time()
        while compactor.step(start_ns):
            pass
        compacted = time.process_time() - cpu_0
        store.bury(start_ns + GRACE_NS)
        events = [s for s in store.segments if s.table == "cuda_events"]
        return {
            "seal_rows_per_s": rows / wall,
            "seal_cpu_s_per_million": cpu / rows * 1e6,
            "compaction_cpu_s_per_million": compacted / rows * 1e6,
            "bytes_per_row": sum(s.bytes for s in events) / rows,
            "files": len(events),
        }


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    began = time.monotonic()
    result = run()
    return time.monotonic() - began, result


def ask_bare(root: Path) -> Any:
    with duckdb.connect(":memory:") as connection:
        for table in ("cuda_events", "containers"):
            connection.execute(
                f"CREATE VIEW {table} AS FROM read_parquet('{root}/{table}/*/*/*.parquet')"
            )
        return connection.execute(QUERY).fetchall()


def ask_ours(root: Path) -> Any:
    with Session(root) as session:
        return [tuple(row.values()) for row in session.ask(QUERY).rows()]


def compare(root: Path, runs: int) -> dict[str, float]:
    ask_bare(root)
    bare, ours = [], []
    for _ in range(runs):
        seconds, expected = timed(lambda: ask_bare(root))
        bare.append(seconds)
        seconds, answer = timed(lambda: ask_ours(root))
        ours.append(seconds)
        if answer != expected:
            raise SystemExit("the answers differ")
    return {
        "bare_duckdb_s": statistics.median(bare),
        "session_s": statistics.median(ours),
        "session_over_bare": statistics.median(ours) / statistics.median(bare),
    }


def sqlite(path: Path, rows: int, all_rows: int) -> dict[str, float]:
    names = [column.name for column in TABLES["cuda_events"].columns]
    data = cuda_rows(rows)
    columns = [data[n].to_pylist() if n in data.column_names else [None] * rows for n in names]
    values = list(zip(*columns, strict=True))
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"CREATE TABLE cuda_events ({', '.join(names)})")
    connection.execute("CREATE INDEX by_time ON cuda_events (timestamp_ns)")
    connection.execute("CREATE INDEX by_cgroup ON cuda_events (cgroup_id)")
    connection.execute("CREATE TABLE containers (cgroup_id INTEGER PRIMARY KEY, container_id)")
    who = containers().select(["cgroup_id", "container_id"]).to_pylist()
    connection.executemany("INSERT INTO containers VALUES (:cgroup_id, :container_id)", who)
    insert = f"INSERT INTO cuda_events VALUES ({', '.join('?' * len(names))})"
    wall_0, cpu_0 = time.monotonic(), time.process_time()
    for at in range(0, rows, 500):
        connection.execute("BEGIN")
        for row in values[at : at + 500]:
            connection.execute(insert, row)
        connection.execute("COMMIT")
    wall, cpu = time.monotonic() - wall_0, time.process_time() - cpu_0
    seconds, _ = timed(lambda: connection.execute(QUERY).fetchall())
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return {
        "rows": rows,
        "rows_per_s": rows / wall,
        "cpu_s_per_million": cpu / rows * 1e6,
        "bytes_per_row": path.stat().st_size / rows,
        "query_s_measured": seconds,
        "query_s_scaled": seconds * all_rows / rows,
    }


def machine() -> dict[str, Any]:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {"cpu": model, "cpus": os.cpu_count(), "kernel": platform.release()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sqlite-rows", type=int, default=500_000)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cotenant-bench-"))
    try:
        result: dict[str, Any] = {"machine": machine(), "rows": args.rows}
        result["store"] = fill(folder / "store", args.rows)
        result["query"] = compare(folder / "store", args.runs)
        result["sqlite"] = sqlite(folder / "events.db", args.sqlite_rows, args.rows)
        scaled = result["sqlite"]["query_s_scaled"]
        result["query"]["sqlite_over_session"] = scaled / result["query"]["session_s"]
        result["peak_rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(result, indent=2))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
