"""A DuckDB that reads the store's files, and can do nothing else."""

import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any, Final

import duckdb

from cotenant.errors import StoreError
from cotenant.query.text.sql import quoted

_MOST_MEMORY: Final = 4 << 30
_GLOB: Final = frozenset("*?[]{}")


def memory_share() -> int:
    """What a question may have of this host's memory, if nothing else is said."""
    host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(host // 2, _MOST_MEMORY)


def _spill() -> str:
    """Where a query that needs more memory writes; empty if there is no such place.

    DuckDB follows links there and lets everybody read it: only we may enter the directory.
    """
    try:
        return tempfile.mkdtemp(prefix="cotenant-")
    except OSError:
        return ""


def connect(store: Path, memory_bytes: int, *, spill: bool) -> Any:
    """An empty database in memory, locked down: no other files, no extensions, no settings."""
    if _GLOB & set(str(store)):
        raise StoreError(f"the path {store} has one of *?[]{{}} in it; rename it or link to it")
    beside = _spill() if spill else ""
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": f"{memory_bytes}B",
            "temp_directory": beside,
        },
    )
    if beside:
        weakref.finalize(connection, shutil.rmtree, beside, ignore_errors=True)
    connection.execute("SET python_enable_replacements = false")
    connection.execute(f"SET allowed_directories = [{quoted(f'{store}/')}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection
