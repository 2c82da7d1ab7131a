"""Every table, as it is sealed, merged and shipped, read by programs that are not ours."""

import json
import os
import random
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from cotenant.remote.shipped import ALL_ROWS
from cotenant.schema import TABLES
from cotenant.store.compaction import Compactor
from cotenant.store.graveyard import GRACE_NS
from cotenant.store.manifest import current_segments
from cotenant.store.writer import StoreWriter
from tests.unit.remote.fleet import NOW_NS, RECORDED, Fleet, made_up

ROOT = Path(__file__).parents[2]
VERSIONS = {"duckdb": "1.5.", "pyarrow": "15.", "pyspark": "3.5.", "polars": ""}
SEALS = 37  # Of few rows each, to be merged.


def _reader(name):
    python = ROOT / "build/readers" / name / "bin/python"
    if not python.exists():
        reason = f"needs {name} in build/readers: `make readers-test` installs it"
        (pytest.fail if os.environ.get("COTENANT_REQUIRE_READERS") else pytest.skip)(reason)
    return python


def _merge(root, node):
    """Many small files of each table, and the one that they are merged into."""
    chance = random.Random(node)
    times = {"from_ns": NOW_NS, "to_ns": NOW_NS + 10**9}
    with StoreWriter(root, node=node, boot_id="boot") as writer:
        for _ in range(SEALS):
            for table in [table for table in TABLES.values() if not table.snapshot]:
                writer.append(table.name, made_up(table, 2, chance, **times))
            writer.seal(NOW_NS)
        compactor = Compactor(writer, share=1e9)
        while compactor.step(NOW_NS):
            pass
        writer.bury(NOW_NS + GRACE_NS)
    assert {s.rows for s in current_segments(root) if s.node == node} == {2 * SEALS}


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """One with sealed and merged files of every table, and one that they are shipped to."""
    place = tmp_path_factory.mktemp("readers")
    fleet = Fleet(place / "near", place / "far")
    fleet.record("node-0", 1, tables=tuple(TABLES))
    _merge(fleet.root, "node-1")
    shipped = Fleet(place / "recorded", place / "far")
    shipped.record("node-0", 1, tables=RECORDED)
    shipped.ship(tables=ALL_ROWS)
    return {"recorded": fleet.root, "shipped": fleet.far}


def _expected(root):
    """The rows that the manifests name, with what a path says of them."""
    found = {}
    for segment in current_segments(root):
        _, date, node, _ = segment.path.split("/")
        said = {"date": date.removeprefix("date="), "node": node.removeprefix("node=")}
        rows = pq.ParquetFile(root / segment.path).read().to_pylist()
        found.setdefault(segment.table, []).extend(row | said for row in rows)
    return found


def _in_order(rows):
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in rows)


@pytest.mark.parametrize("store", ["recorded", "shipped"])
@pytest.mark.parametrize("name", VERSIONS)
def test_every_table_is_read_by(name, store, stores):
    command = [_reader(name), Path(__file__).with_name("read.py"), name, stores[store]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    read, expected = json.loads(done.stdout), _expected(stores[store])
    assert read["version"].startswith(VERSIONS[name])
    assert read["rows"].keys() == expected.keys()
    for table, rows in expected.items():
        assert _in_order(read["rows"][table]) == _in_order(rows), table


def test_the_store_that_is_recorded_has_every_table(stores):
    assert _expected(stores["recorded"]).keys() == TABLES.keys()
