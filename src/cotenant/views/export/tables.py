"""Every table as a file of its own: Parquet, CSV, or an Arrow stream."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cotenant.errors import UsageError
from cotenant.query.engine.batches import Batches
from cotenant.query.engine.session import Session
from cotenant.schema import TABLES
from cotenant.schema.folding import SHOWN_BY
from cotenant.views.export.part import written
from cotenant.views.export.progress import ExportProgress
from cotenant.views.rows import write_binary, write_csv


class _Counted:
    """Batches that tell how many rows have passed."""

    def __init__(
        self, batches: Batches, table: str, expected: int, progress: ExportProgress
    ) -> None:
        self.schema = batches.schema
        self._batches = batches
        self._table = table
        self._expected = expected
        self._progress = progress

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches:
            yield batch
            self._progress.add(batch.num_rows, self._table, self._expected)


def _chosen(session: Session, tables: list[str] | None) -> dict[str, int]:
    """The tables to write, and about how many rows each has."""
    there: dict[str, int] = {}
    for segment in session.segments:
        for name in {segment.table, SHOWN_BY.get(segment.table, segment.table)}:
            there[name] = there.get(name, 0) + segment.rows
    if tables is None:
        return {name: there[name] for name in TABLES if name in there and name not in SHOWN_BY}
    for name in tables:
        if name not in TABLES:
            raise UsageError(f"no table {name}; choose from {', '.join(TABLES)}")
    return {name: there.get(name, 0) for name in tables}


def write_tables(
    session: Session,
    kind: str,
    output: Path,
    tables: list[str] | None,
    progress: ExportProgress,
    *,
    raw: bool = False,
) -> int:
    """One file per table, whole or not at all."""
    chosen = _chosen(session, tables)
    output.mkdir(exist_ok=True)
    expected = sum(chosen.values())
    for table in chosen:
        mode = "w" if kind == "csv" else "wb"
        with (
            session.stream(f"FROM {table}") as (batches, _),
            written(output / f"{table}.{kind}", mode) as out,
        ):
            counted: Any = _Counted(batches, table, expected, progress)
            if kind == "csv":
                write_csv(counted, out, raw=raw)
            else:
                write_binary(counted, out, kind)
    return progress.rows
