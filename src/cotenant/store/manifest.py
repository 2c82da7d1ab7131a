"""Which segments are current: one small file per node, replaced by rename.

A reader that has read a manifest sees one moment of the store, every table of it. Where there is
no manifest, as in a store that was copied in part, the segments found by a walk are taken.
"""

import gzip
import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from cotenant.errors import NewerStore, StoreError
from cotenant.release import VERSION
from cotenant.schema import TABLES, Table
from cotenant.store.absence import Absent, Times, either
from cotenant.store.durable import replace_file, store_error
from cotenant.store.layout import FORMAT, MANIFESTS, is_segment, node_name, node_of
from cotenant.store.plain_file import MOST_BYTES, is_plain, parse_json, read_plain

Version = tuple[int, int, int]  # Inode, size and time of change.
Stamp = tuple[tuple[Path, Version], ...]
_UNREADABLE: Final = (0, 0, 0)

_PACKED: Final = b"\x1f\x8b"  # How gzip begins.


@cache
def schema_id(table: Table) -> str:
    """Tells whether a segment has exactly the columns of today."""
    text = ",".join(f"{c.name}:{c.type}" for c in table.columns)
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


@dataclass(frozen=True)
class Segment:
    """One file of rows, as a manifest names it."""

    table: str
    path: str  # Below the store.
    rows: int
    min_ns: int | None  # None where the table has no time.
    max_ns: int | None
    bytes: int
    schema: str | None = None  # None where it is not known to have today's columns.
    level: int = 0  # How often its rows were merged.
    key: str | None = None  # Whose snapshot it is: a boot's or a recording's.

    @cached_property
    def text(self) -> str:
        """Its line in the manifest; kept, because it is written again at every seal."""
        given = {k: v for k, v in self.__dict__.items() if k != "text"}
        return json.dumps({k: v for k, v in given.items() if v is not None and (v or k != "level")})

    @property
    def partition(self) -> str:
        """The folder it lies in, below the store."""
        return self.path.rpartition("/")[0]

    @property
    def node(self) -> str:
        """The host that recorded it."""
        return node_of(self.path)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one node's recorder holds current."""

    next: int = 1  # The number of the next segment; never used twice.
    segments: tuple[Segment, ...] = ()
    version: str = VERSION  # Of who wrote it.
    machine: str | None = None  # Whose it is, by a hash of the machine-id; None if not known.
    missing: tuple[Segment, ...] = ()  # What a shipper did not find where it came from.
    absent: Absent = field(default_factory=dict)  # Of which times it has no rows, by table.


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine that writes a node's segments."""

    hash: str | None = None  # Of its machine-id; None if that is not known.
    takes_over: bool = False  # A node of its name that was another machine's.

    def check(self, root: Path | str, node: str, manifest: Manifest) -> None:
        """Raise StoreError if the manifest is of another machine; an unknown one may be this."""
        if self.takes_over or None in (self.hash, manifest.machine):
            return
        if self.hash != manifest.machine:
            raise StoreError(
                f"{root} has a node {node} that was recorded on another machine; name this one "
                "otherwise with --node, or take that one over with --adopt if this is its successor"
            )


def manifest_path(root: Path, node: str) -> Path:
    """Where the node's manifest lies."""
    return root / MANIFESTS / f"{node_name(node)}.json"


def manifest_content(manifest: Manifest) -> bytes:
    """The manifest as it is written."""
    lines = ",\n".join(segment.text for segment in manifest.segments)
    head = f'{{"format": {FORMAT}, "version": "{VERSION}", "next": {manifest.next}, '
    if manifest.machine is not None:
        head += f'"machine": {json.dumps(manifest.machine)}, '
    if manifest.missing:
        head += f'"missing": [{", ".join(segment.text for segment in manifest.missing)}], '
    if manifest.absent:
        head += f'"absent": {json.dumps(manifest.absent)}, '
    head += '"segments": [\n'
    return f"{head}{lines}\n]}}\n".encode()


def packed_manifest(manifest: Manifest) -> bytes:
    """The same in a twentieth of the bytes, for stores to which every byte travels."""
    return gzip.compress(manifest_content(manifest), mtime=0)


def _unpacked(text: bytes) -> bytes:
    """What is packed, up to the size that a manifest may have."""
    if not text.startswith(_PACKED):
        return text
    try:
        packed = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        content = packed.decompress(text, MOST_BYTES)
    except zlib.error as error:
        raise ValueError("damaged") from error
    if not packed.eof:
        raise ValueError("cut short, or too large")
    return content


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Replace the manifest; OSError leaves the one before in place."""
    replace_file(path, manifest_content(manifest))


def _segment(entry: dict[str, Any]) -> Segment:
    if not is_segment(entry["path"]):
        raise ValueError("the path of a segment leads out of its store")
    min_ns, max_ns = entry.get("min_ns"), entry.get("max_ns")
    schema, key = entry.get("schema"), entry.get("key")
    return Segment(
        table=_word(entry["table"]),
        path=entry["path"],
        rows=_number(entry["rows"]),
        min_ns=None if min_ns is None else _number(min_ns),
        max_ns=None if max_ns is None else _number(max_ns),
        bytes=_number(entry["bytes"]),
        schema=None if schema is None else _word(schema),
        level=_number(entry.get("level", 0)),
        key=None if key is None else _word(key),
    )


def _segments(entries: Any) -> tuple[Segment, ...]:
    if not isinstance(entries, list):
        raise TypeError("segments are a list")
    return tuple(_segment(entry) for entry in entries)


def _absent(entries: Any) -> Absent:
    return {_word(table): _times(times) for table, times in entries.items()}


def _times(pieces: Any) -> Times:
    return either(tuple((_number(start), _number(end)) for start, end in pieces))


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError("no number that we write")
    return value


def _word(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def read_manifest(path: Path) -> Manifest | None:
    """The node's manifest; None if there is none."""
    try:
        return parse_manifest(read_plain(path), path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise store_error("read", path, error) from error


def parse_manifest(text: bytes, path: Path | str) -> Manifest:
    """A manifest's content; ``path`` is where it was found."""
    try:
        content = parse_json(_unpacked(text))
        if content["format"] > FORMAT:
            raise NewerStore(f"{path} was written by a newer cotenant; upgrade this one")
        following = _number(content["next"])
        segments, missing = _segments(content["segments"]), _segments(content.get("missing", []))
        version = _word(content.get("version", "0"))
        machine = content.get("machine")
        machine = None if machine is None else _word(machine)
        absent = _absent(content.get("absent", {}))
        return Manifest(following, segments, version, machine, missing, absent)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(
            f"{path} is damaged; delete it: the segments are found without it"
        ) from error


def check_continuable(root: Path, manifest: Manifest) -> None:
    """Raise NewerStore if a later version wrote it, whose columns we would lose in merging."""
    if _numbers(manifest.version) > _numbers(VERSION):
        raise NewerStore(
            f"{root} was written by cotenant {manifest.version}, this is {VERSION}; upgrade "
            "this one, or record into another --store"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d{1,9}", version)[:3])


def manifest_files(root: Path) -> list[Path]:
    """The manifests of all nodes."""
    try:
        entries = sorted((root / MANIFESTS).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise store_error("read", root / MANIFESTS, error) from error
    return [e for e in entries if e.suffix == ".json" and not e.name.startswith(".")]


def _folders(path: Path, prefix: str) -> list[str]:
    try:
        return sorted(e.name for e in os.scandir(path) if e.name.startswith(prefix))
    except (FileNotFoundError, NotADirectoryError):
        return []


def walk(root: Path, skip: frozenset[str] = frozenset()) -> list[Segment]:
    """Every visible segment below a store, but for those of the nodes to skip."""
    return [segment for folder in partitions(root, skip) for segment in _segments_in(root, folder)]


def partitions(root: Path, skip: frozenset[str] = frozenset()) -> Iterator[str]:
    """The folders below a store that hold segments; nodes to skip are as they stand in paths."""
    for table in TABLES:
        for date in _folders(root / table, "date="):
            for node in _folders(root / table / date, "node="):
                if node.removeprefix("node=") not in skip:
                    yield f"{table}/{date}/{node}"


def _segments_in(root: Path, folder: str) -> list[Segment]:
    table = folder.partition("/")[0]
    return [
        Segment(table, f"{folder}/{name}", 0, None, None, _size(root / folder / name))
        for name in _folders(root / folder, "")
        if name.endswith(".parquet") and not name.startswith(".") and is_segment(f"{folder}/{name}")
    ]


def _size(file: Path) -> int:
    """Of what can be read there."""
    return file.stat().st_size if is_plain(file) else 0


def versions(manifests: Iterable[Path]) -> dict[Path, Version]:
    """The manifests that are there, each with what differs once it was replaced."""
    found = {}
    for path in manifests:
        try:
            status = os.stat(path)
        except FileNotFoundError:
            continue
        except OSError:
            found[path] = _UNREADABLE  # Why, is told by who reads it.
            continue
        found[path] = status.st_ino, status.st_size, status.st_mtime_ns
    return found


def stamp(root: Path) -> Stamp:
    """Differs when any manifest was replaced since."""
    return tuple(versions(manifest_files(root)).items())


def named_segments(manifests: Iterable[Manifest | None]) -> list[Segment]:
    """What they name, of the tables that we know."""
    named = (segment for m in manifests if m is not None for segment in m.segments)
    return [segment for segment in named if segment.table in TABLES]


def current_segments(root: Path) -> list[Segment]:
    """What a reader should read: what the manifests name, and what nodes without one left."""
    files = manifest_files(root)
    found = named_segments(read_manifest(path) for path in files)
    return found + walk(root, frozenset(path.stem for path in files))
