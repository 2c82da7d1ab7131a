"""A store of an earlier version is continued; one of a later version is refused in one line."""

import json
import re
import shutil
from pathlib import Path

import pytest

from cotenant import __version__
from cotenant.errors import NewerStore
from cotenant.schema import TABLES
from cotenant.store.compaction import Compactor
from cotenant.store.layout import FORMAT
from cotenant.store.manifest import read_manifest
from cotenant.store.writer import StoreWriter
from cotenant.views.cli import main
from tests.data.write_store import DAY_NS, STORES, answer, arrow, rows_of

READERS = (("sql", "SELECT 1"), ("ask", "top_kernels"), ("explain",), ("tenants",), ("top",))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Its manifest names no version."""
    root = tmp_path / "store"
    shutil.copytree(STORES / "stored-spans", root)
    (manifest,) = (root / "manifest").glob("*.json")
    manifest.write_text(manifest.read_text().replace(f'"version": "{__version__}", ', ""))
    assert "version" not in json.loads(manifest.read_text())
    return root


def count(root: Path, table: str) -> int:
    (row,) = answer(root, "sql", f"SELECT count(*) AS n FROM {table}", "--format", "json")
    return int(row["n"])


def test_a_store_of_the_first_version_is_continued_and_merged(old: Path) -> None:
    grow = [name for name, table in TABLES.items() if not table.snapshot and rows_of(name)]
    before = {name: count(old, name) for name in grow}
    start_ns = rows_of("cuda_events")[0]["timestamp_ns"]
    with StoreWriter(old, node="node-a", boot_id="boot-1") as writer:
        for name in grow:
            writer.append(name, arrow(name, rows_of(name)))
        writer.seal(start_ns)
        compactor = Compactor(writer, share=1e9)
        while compactor.step(start_ns + 7 * DAY_NS):
            pass
    assert {name: count(old, name) for name in grow} == {
        name: before[name] + len(rows_of(name)) for name in grow
    }
    (manifest,) = (old / "manifest").glob("*.json")
    written = read_manifest(manifest)
    assert written is not None
    assert written.version == __version__


def told(words: tuple[str, ...], store: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main([*words, "--store", str(store)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("words", READERS, ids=lambda words: words[0])
def test_a_store_of_a_later_format_is_refused_in_one_line(
    old: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    (old / "store.json").write_text(json.dumps({"format": FORMAT + 1, "created_ns": 1}))
    line = told(words, old, capsys)
    assert f"has store format {FORMAT + 1}; this cotenant reads up to {FORMAT}: upgrade it" in line


def test_a_recorder_does_not_continue_what_a_later_version_wrote(old: Path) -> None:
    (manifest,) = (old / "manifest").glob("*.json")
    later = "99.0.1"
    manifest.write_text(manifest.read_text().replace("{", f'{{"version": "{later}", ', 1))
    before = manifest.read_bytes()
    with pytest.raises(NewerStore) as refused:
        StoreWriter(old, node="node-a", boot_id="boot-1")
    assert re.fullmatch(
        rf"\S+ was written by cotenant {later}, this is {__version__}; upgrade this one, or "
        "record into another --store",
        str(refused.value),
    )
    assert manifest.read_bytes() == before
    # What it has in common with this version can be read.
    assert count(old, "cuda_events") == len(rows_of("cuda_events"))


def test_a_manifest_of_a_later_format_is_not_taken_for_a_damaged_one(old: Path) -> None:
    (manifest,) = (old / "manifest").glob("*.json")
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"format": FORMAT + 1}))
    with pytest.raises(NewerStore):
        StoreWriter(old, node="node-a", boot_id="boot-1")
