"""Adopts segments that no manifest names, as in a store that lost its manifest."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cotenant.schema import TABLES
from cotenant.store.manifest import Segment
from cotenant.store.ownership import is_behind_link
from cotenant.store.plain_file import is_plain
from cotenant.store.segment import TIME, span
from cotenant.store.snapshot import page_key, snapshot_key, written_at


def adopt(root: Path, segments: list[Segment]) -> tuple[Segment, ...]:
    """The segments with what a manifest would have said of them; unreadable ones are left out.

    So is what lies behind a link: a store's own rows lie in the store.
    """
    adopted = []
    for segment in segments:
        if is_behind_link(root, segment.path) or not is_plain(root / segment.path):
            continue
        try:
            file = pq.ParquetFile(root / segment.path)
            adopted.append(_described(file, segment))
        except (OSError, pa.ArrowInvalid):
            continue
    return tuple(_paged(adopted))


def _paged(segments: list[Segment]) -> list[Segment]:
    """Of the files of one boot the latest is still rewritten; the others are pages."""
    latest: dict[tuple[str, str], Segment] = {}
    for segment in segments:
        if segment.key is not None:
            whose = segment.table, segment.key
            latest[whose] = max(latest.get(whose, segment), segment, key=written_at)
    return [
        segment
        if segment.key is None or latest[segment.table, segment.key] is segment
        else replace(segment, key=page_key(segment.key, written_at(segment)[1]))
        for segment in segments
    ]


def _described(file: Any, segment: Segment) -> Segment:
    rows = file.metadata.num_rows
    if not TABLES[segment.table].snapshot:
        first, last = span(file.read(columns=[TIME]))
        return replace(segment, rows=rows, min_ns=first, max_ns=last)
    whose = "session_id" if segment.table == "sessions" else "boot_id"
    names = file.read(columns=[whose])
    key = snapshot_key(names, "") or str(names.column(0)[0].as_py())
    return replace(segment, rows=rows, key=key)
