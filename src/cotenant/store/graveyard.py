"""Files that a query under way may still be reading: kept for a while, then removed.

A merged segment is hidden as long as what it replaces is there, so that whoever reads the folders
instead of the manifest never meets the same rows twice.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from cotenant.store.durable import replace_file
from cotenant.store.layout import MANIFESTS, is_segment, node_name
from cotenant.store.plain_file import parse_json, read_plain

GRACE_NS: Final = 600 * 1_000_000_000
_HIDDEN: Final = ".merged"


@dataclass(frozen=True, slots=True)
class Grave:
    """What is to be removed, when, and which hidden segment then takes its place."""

    due_ns: int
    remove: tuple[str, ...]
    show: str | None = None


def graveyard_path(root: Path, node: str) -> Path:
    """Where the node's list lies; beside the manifest, but no manifest."""
    return root / MANIFESTS / f"{node_name(node)}.graveyard"


def read_graveyard(path: Path) -> list[Grave]:
    """The list; a damaged one is empty, because the next start removes unnamed files."""
    try:
        entries = parse_json(read_plain(path))
        graves = [Grave(int(e["due_ns"]), tuple(e["remove"]), e["show"]) for e in entries]
        paths = [path for g in graves for path in (*g.remove, *([g.show] if g.show else []))]
        return graves if all(map(is_segment, paths)) else []
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return []


def write_graveyard(path: Path, graves: list[Grave]) -> None:
    """Replace the list."""
    replace_file(path, json.dumps([asdict(grave) for grave in graves]).encode())


def is_hidden(path: str) -> bool:
    """Whether the segment has not got its visible name yet."""
    return path.endswith(_HIDDEN)


def hidden(path: str) -> str:
    """The name of a segment that readers of folders do not see.

    The dot hides it from Spark and Arrow, the ending from DuckDB, whose ``*`` matches a dot.
    """
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}{_HIDDEN}"


def shown(path: str) -> str:
    """The name that it gets in the end."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{name.removeprefix('.').removesuffix(_HIDDEN)}"
