"""A DuckDB that reads the store's files, and can do nothing else."""

import os
import tempfile
from pathlib import Path
from typing import Any, Final

import duckdb

from cotenant.errors import StoreError
from cotenant.query.tables import quoted

_MOST_MEMORY: Final = 4 << 30
_GLOB: Final = frozenset("*?[]{}")


def _memory(limit: int | None) -> int:
    if limit is not None:
        return limit
    host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(host // 2, _MOST_MEMORY)


def _spill(store: Path) -> Path:
    """Where a query that needs more memory writes; a confined recorder may only use the store."""
    try:
        place = Path(tempfile.gettempdir())
    except FileNotFoundError:
        place = store
    return place / f"cotenant-{os.getpid()}"


def connect(store: Path, memory_bytes: int | None = None) -> Any:
    """An empty database in memory, locked down: no other files, no extensions, no settings."""
    if _GLOB & set(str(store)):
        raise StoreError(f"the path {store} has one of *?[]{{}} in it; rename it or link to it")
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": f"{_memory(memory_bytes)}B",
            "temp_directory": str(_spill(store)),
        },
    )
    connection.execute("SET python_enable_replacements = false")
    connection.execute(f"SET allowed_directories = [{quoted(f'{store}/')}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection
