"""Stores in a temporary directory, and rows that look real."""

import importlib.util
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cotenant.store.manifest import current_segments
from cotenant.store.writer import StoreWriter

NODE = "node-a"
BOOT = "7d9b3f0e-0000-4000-8000-000000000001"


@pytest.fixture(scope="session")
def cuda_rows():
    """``cuda_rows(count, seed=...)``: the rows that the benchmarks use too."""
    path = Path(__file__).parents[3] / "bench" / "rows.py"
    spec = importlib.util.spec_from_file_location("bench_rows", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.cuda_rows


@pytest.fixture
def root(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def open_writer(root):
    """``open_writer(node=..., boot_id=..., gid=...)``, closed after the test."""
    opened = []

    def open_writer(where=root, *, node=NODE, boot_id=BOOT, **more):
        opened.append(StoreWriter(where, node=node, boot_id=boot_id, **more))
        return opened[-1]

    yield open_writer
    for writer in opened:
        writer.close()


@pytest.fixture
def store(open_writer):
    return open_writer()


@pytest.fixture
def stored(root):
    """``stored(table)``: its rows as a reader of the manifest finds them."""

    def stored(table):
        files = [root / s.path for s in current_segments(root) if s.table == table]
        return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]

    return stored


@pytest.fixture
def container():
    """``container(cgroup_id, tenant)``: one row of containers."""

    def container(cgroup_id, tenant, boot_id=BOOT):
        return pa.table(
            {
                "cgroup_id": [cgroup_id],
                "container_id": [f"id-of-{tenant}"],
                "tenant": [tenant],
                "node": [NODE],
                "boot_id": [boot_id],
            }
        )

    return container


@pytest.fixture
def recording():
    """``recording(session_id)``: one row of sessions."""

    def recording(session_id, ended_ns=None):
        return pa.table(
            {
                "session_id": [session_id],
                "node": [NODE],
                "boot_id": [BOOT],
                "kernel": ["6.18"],
                "started_ns": [1],
                "ended_ns": pa.array([ended_ns], pa.int64()),
                "wall_offset_ns": [0],
                "attach_method": ["session"],
                "layers": ["auto"],
                "hierarchy": ["v2"],
            }
        )

    return recording
