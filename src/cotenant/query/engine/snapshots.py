"""Snapshot tables as a session sees them: each file read once, through one descriptor.

A recorder replaces these files while they are read. DuckDB opens a file once to plan a query and
again to run it, and would read the pages of one version by the footer of another.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cotenant.errors import StoreError
from cotenant.store.manifest import Segment, Version, versions
from cotenant.store.plain_file import check_plain

RESTORE: Final = "restore that file, or move it away and do without its rows"


class SnapshotReader:
    """Reads snapshots; a file that was not replaced since is not read again."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._read: dict[Path, tuple[Version, Any]] = {}

    def read(self, segments: Sequence[Segment]) -> Any | None:
        """The rows of all these files, with every column that any has; None without files.

        FileNotFoundError if one is not there any more.
        """
        # `--help` must not wait for Arrow.
        import pyarrow as pa

        files = [self._root / segment.path for segment in segments]
        found = [self._one(file, version) for file, version in versions(files).items()]
        if len(found) < len(files):
            raise FileNotFoundError(self._root)
        if not found:
            return None
        # DuckDB takes long over many small chunks.
        return pa.concat_tables(found, promote_options="permissive").combine_chunks()

    def _one(self, file: Path, version: Version) -> Any:
        known = self._read.get(file)
        if known is None or known[0] != version:
            known = self._read[file] = version, _read(file)
        return known[1]


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
