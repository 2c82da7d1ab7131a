"""Snapshot tables as a session sees them: each file read once, through one descriptor.

A recorder replaces these files while they are read. DuckDB opens a file once to plan a query and
again to run it, and would read the pages of one version by the footer of another.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cotenant.errors import StoreError
from cotenant.store.manifest import Segment
from cotenant.store.plain_file import check_plain

RESTORE: Final = "restore that file, or move it away and do without its rows"


def read_snapshot(root: Path, segments: Sequence[Segment]) -> Any | None:
    """The rows of all these files, with every column that any has; None without files.

    FileNotFoundError if one is not there any more.
    """
    # `--help` must not wait for Arrow.
    import pyarrow as pa

    read = [_read(root / segment.path) for segment in segments]
    return pa.concat_tables(read, promote_options="permissive") if read else None


def _read(file: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        check_plain(file)
        with pq.ParquetFile(file) as parquet:
            return parquet.read()
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"cannot read {file}: {str(error).splitlines()[0]}; {RESTORE}") from error
