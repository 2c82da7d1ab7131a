"""The paths of a store.

STORE/store.json                                            the mark of a store
STORE/manifest/<node>.json                                  which segments are current
STORE/<table>/date=<UTC date>/node=<node>/<start>-<n>.parquet
"""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from cotenant.errors import NewerStore, StoreError
from cotenant.schema import TABLES
from cotenant.store.durable import store_error
from cotenant.store.plain_file import parse_json, read_plain

FORMAT: Final = 1  # Readers accept this and every older one.
MARK: Final = "store.json"
MANIFESTS: Final = "manifest"
_MARK_BYTES: Final = 1 << 20
# No more than we write: a path is shown, given to DuckDB, where * has a meaning, and opened.
_SEGMENT: Final = re.compile(
    r"[a-z0-9_]+/date=[0-9-]+/node=[\w.~%-]+/[\w.~%-]+\.(parquet|merged)", re.ASCII
)


def node_name(node: str) -> str:
    """The node as it stands in paths; Hive readers undo the percent signs."""
    quoted = quote(node, safe="")
    return quoted.replace(".", "%2E") if node.startswith(".") else quoted


def partition(table: str, *, node: str, now_ns: int) -> str:
    """The folder, below the store, of what is sealed now."""
    date = datetime.fromtimestamp(now_ns // 1_000_000_000, UTC).date().isoformat()
    return f"{table}/date={date}/node={node_name(node)}"


def node_of(path: str) -> str:
    """The node of a segment, by its path below the store."""
    return unquote(path.split("/")[2].removeprefix("node="))


def is_segment(path: str) -> bool:
    """Whether a path may be one of a segment below a store; it never leads out of it."""
    return _SEGMENT.fullmatch(path) is not None


def mark(created_ns: int) -> bytes:
    """The content of a new store's mark."""
    return json.dumps({"format": FORMAT, "created_ns": created_ns}).encode() + b"\n"


def is_store(root: Path) -> bool:
    """Whether this directory bears the mark; a newer format is refused, not guessed at."""
    try:
        text = read_plain(root / MARK, _MARK_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise store_error("read", root / MARK, error) from error
    try:
        version = int(parse_json(text)["format"])
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise StoreError(
            f"{root / MARK} is damaged; restore it from a copy of the store"
        ) from error
    if version > FORMAT:
        raise NewerStore(
            f"{root} has store format {version}; this cotenant reads up to {FORMAT}: upgrade it"
        )
    return True


def _has_segments(root: Path) -> bool:
    """Whether there are tables here, as where a store was copied without its mark."""
    return any(next((root / table).glob("date=*"), None) for table in TABLES)


def check_readable(root: Path) -> None:
    """Raise, in words, unless there is a store here that we may read."""
    try:
        names = {entry.name for entry in root.iterdir()}
    except FileNotFoundError as error:
        raise StoreError(
            f"no store at {root}; record one with `cotenant record` or name it with --store"
        ) from error
    except NotADirectoryError as error:
        raise StoreError(f"{root} is a file, not a store; name a directory with --store") from error
    except PermissionError as error:
        raise StoreError(
            f"no permission to read the store {root}; join its group, see `ls -ld {root}`"
        ) from error
    except OSError as error:
        raise store_error("read", root, error) from error
    if not is_store(root) and not _has_segments(root):
        state = "is empty" if not names else "is not a store"
        raise StoreError(
            f"{root} {state}; record one with `cotenant record` or name it with --store"
        )
