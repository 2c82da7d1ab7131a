"""A DuckDB connection that can read the store's files and nothing else."""

import os
import secrets
import shutil
import weakref
from pathlib import Path
from typing import Any, Final

import duckdb

from cotenant import leftovers
from cotenant.errors import StoreError
from cotenant.query.text.sql import quoted

_MOST_MEMORY: Final = 4 << 30
_GLOB: Final = frozenset("*?[]{}")


def memory_share() -> int:
    """The default memory limit of a question."""
    host = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(host // 2, _MOST_MEMORY)


def _spill() -> str:
    """A directory for what does not fit into memory; empty if none can be created.

    DuckDB follows links there and creates files that anyone may read, so the directory is private.
    """
    directory = f"{os.environ.get('TMPDIR', '/tmp')}/cotenant-{secrets.token_hex(8)}"
    try:
        leftovers.make_directory(directory)
    except OSError:
        return ""
    return directory


def _remove(directory: str) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    leftovers.forget(directory)


def connect(
    store: Path, memory_bytes: int, *, spill: bool, threads: int | None = None
) -> tuple[Any, Any]:
    """An empty in-memory database, locked down: no other files, no extensions, no settings.

    The second is a cursor of it that tells how far its query is.
    """
    if _GLOB & set(str(store)):
        raise StoreError(f"the path {store} contains one of *?[]{{}}; rename it or link to it")
    spill_directory = _spill() if spill else ""
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": f"{memory_bytes}B",
            "temp_directory": spill_directory,
            **({} if threads is None else {"threads": threads}),
        },
    )
    if spill_directory:
        weakref.finalize(connection, _remove, spill_directory)
    connection.execute("SET python_enable_replacements = false")
    connection.execute(f"SET allowed_directories = [{quoted(f'{store}/')}]")
    connection.execute("SET enable_external_access = false")
    watched = connection.cursor()
    watched.execute("SET enable_progress_bar = true")
    watched.execute("SET enable_progress_bar_print = false")
    connection.execute("SET lock_configuration = true")
    return connection, watched
