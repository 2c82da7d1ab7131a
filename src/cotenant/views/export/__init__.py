"""Recordings for other tools: Perfetto, Parquet, CSV, Arrow."""

from pathlib import Path
from typing import Final

from cotenant.errors import UsageError
from cotenant.query.engine.session import Session
from cotenant.views.export.progress import ExportProgress

FORMATS: Final = ("perfetto", "parquet", "csv", "arrow")


def export(
    session: Session,
    kind: str,
    output: Path,
    tables: list[str] | None = None,
    *,
    raw: bool = False,
) -> int:
    """Write the session's rows to a file, or a directory of them; how many rows that were.

    What a tenant wrote is made harmless in CSV and traces, unless ``raw``; Parquet and Arrow have
    it as it is.
    """
    with ExportProgress() as progress:
        if kind == "perfetto":
            if tables:
                raise UsageError("--table does not apply to perfetto, which exports every table")
            from cotenant.views.export.perfetto import write_trace

            return write_trace(session, output, progress, raw=raw)
        from cotenant.views.export.tables import write_tables

        return write_tables(session, kind, output, tables, progress, raw=raw)
