"""Recordings for others: a report, Perfetto, Parquet, CSV, Arrow."""

from pathlib import Path
from typing import Final

from cotenant.errors import UsageError
from cotenant.query.engine.session import Session
from cotenant.views.export.progress import ExportProgress

FORMATS: Final = ("html", "perfetto", "parquet", "csv", "arrow")
DEFAULTS: Final = {"html": "cotenant.html", "perfetto": "cotenant.pftrace"}


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
    if tables and kind in DEFAULTS:
        raise UsageError(f"--table does not apply to {kind}, which has every table in it")
    if kind == "html":
        from cotenant.views.export.report import write_report

        return write_report(session, output)
    with ExportProgress() as progress:
        if kind == "perfetto":
            from cotenant.views.export.perfetto import write_trace

            return write_trace(session, output, progress, raw=raw)
        from cotenant.views.export.tables import write_tables

        return write_tables(session, kind, output, tables, progress, raw=raw)
