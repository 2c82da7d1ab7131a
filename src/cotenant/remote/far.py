"""A node's part of a far store: what is there, what is put, and the manifest that names it."""

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from cotenant.errors import StoreError
from cotenant.remote.objects import FarObject
from cotenant.remote.pace import Pace
from cotenant.remote.place import FarPlace, Listed
from cotenant.store.absence import Absent
from cotenant.store.layout import MANIFESTS, node_name
from cotenant.store.manifest import Machine, Manifest, Segment, packed_manifest, parse_manifest
from cotenant.store.periods import told_by

_NAMED_AFTER: Final = 64  # Objects: a reader sees them before a long pass has ended.
_CHECKED_DAYS: Final = 2


@dataclass
class Sent:
    """What a pass sent."""

    objects: int = 0
    bytes: int = 0


def far_manifest(place: FarPlace, node: str) -> Manifest | None:
    """What a far store has of a node; None if nothing."""
    path = manifest_of(node)
    try:
        return parse_manifest(place.read(path), f"{place.name}/{path}")
    except FileNotFoundError:
        return None


def manifest_of(node: str) -> str:
    """Where a far store has the node's manifest."""
    return f"{MANIFESTS}/{node_name(node)}.json"


class FarNode:
    """What one pass finds and puts.

    ``resumes`` one that may have been ended before its manifest: it looks what is there already.
    """

    def __init__(self, place: FarPlace, node: str, pace: Pace, *, resumes: bool = True) -> None:
        self._place = place
        self._node = node
        self._pace = pace
        self._resumes = resumes
        manifest = far_manifest(place, node)
        self._manifest = manifest or Manifest()
        self._segments = {s.path: s for s in self._manifest.segments}
        self._check_shipped()
        self._gone: set[str] = set()
        self._folders: dict[str, dict[str, Listed]] = {}
        self._unnamed = 0
        self.is_new = manifest is None
        self.sent = Sent()

    def _check_shipped(self) -> None:
        """A recorder's own store is no place to ship that node to: the manifest is its own."""
        if any(s.key is None and told_by(s.path) is None for s in self._segments.values()):
            raise StoreError(
                f"{self._node} is recorded into {self._place.name} itself; name another place"
            )

    def check_machine(self, machine: Machine) -> None:
        """Raise StoreError if another machine shipped a node of this name."""
        machine.check(self._place.name, self._node, self._manifest)

    def segments(self, table: str) -> list[Segment]:
        """What is there of a table."""
        return [s for s in self._segments.values() if s.table == table]

    @property
    def absent(self) -> Absent:
        """Of which times it was said to have no rows."""
        return self._manifest.absent

    @property
    def changed(self) -> bool:
        """Whether anything was put since the manifest was."""
        return self._unnamed > 0

    @property
    def until_ns(self) -> int | None:
        """The time of the last row that is there."""
        return max(
            (s.max_ns for s in self._segments.values() if s.max_ns is not None), default=None
        )

    def rows(self, segment: Segment) -> Any:
        """What an object holds."""
        where = f"{self._place.name}/{segment.path}"
        try:
            return pq.read_table(pa.py_buffer(self._place.read(segment.path)))
        except FileNotFoundError as error:
            raise StoreError(f"{where} is gone; ship again: it is sent anew") from error
        except pa.ArrowException as error:
            raise StoreError(f"{where} is damaged; delete it, and ship again") from error

    def put(self, packed: FarObject, instead_of: tuple[Segment, ...]) -> None:
        """Put an object, unless it is there already, in place of others."""
        segment = packed.segment
        with packed.content:
            folder, _, name = segment.path.rpartition("/")
            there = self._listed(folder).get(name)
            if there is None or there.bytes != segment.bytes:
                self._place.write(segment.path, packed.content, self._pace)
                self._count(segment.bytes)
        for old in instead_of:
            del self._segments[old.path]
            self._gone.add(old.path)
        self._segments[segment.path] = segment
        self._gone.discard(segment.path)
        self._unnamed += 1

    def let_go(self, kept_from_ns: Callable[[str], int]) -> None:
        """Name nothing any more that is older than its table is kept; snapshots stay."""
        old = [
            s
            for s in self._segments.values()
            if s.max_ns is not None and s.max_ns < kept_from_ns(s.table)
        ]
        for segment in old:
            del self._segments[segment.path]
            self._gone.add(segment.path)
        self._unnamed += len(old)

    def _listed(self, folder: str) -> dict[str, Listed]:
        if folder not in self._folders:
            self._folders[folder] = self._place.listed(folder) if self._resumes else {}
        return self._folders[folder]

    def _count(self, size: int) -> None:
        self.sent.objects += 1
        self.sent.bytes += size

    def name_some(self, near: Manifest) -> None:
        """Put the manifest, if many objects wait for it."""
        if self._unnamed >= _NAMED_AFTER:
            self.name(near)

    def name(self, near: Manifest) -> None:
        """Put the manifest, if it has changed; then remove what it does not name any more."""
        told = (near.missing, near.absent)
        if self._unnamed or told != (self._manifest.missing, self._manifest.absent):
            segments = tuple(self._segments[path] for path in sorted(self._segments))
            self._manifest = replace(near, next=1, segments=segments)
            content = packed_manifest(self._manifest)
            self._place.write(manifest_of(self._node), io.BytesIO(content), self._pace)
            self._count(len(content))
            self._unnamed = 0
        for path in sorted(self._gone):
            self._place.remove(path)
        self._gone.clear()

    def check(self) -> None:
        """Compare the last days with what is there: put again what is not, remove what is left.

        What was put and not named is left alone, unless something that is named stands for it.
        """
        for folder in self._last_folders() if self._resumes else ():
            names = self._listed(folder)
            named = {
                s.path.rpartition("/")[2]: s
                for s in self._segments.values()
                if s.partition == folder
            }
            for name, segment in named.items():
                if name not in names or names[name].bytes != segment.bytes:
                    del self._segments[segment.path]
                    self._unnamed += 1
            kept = [s for s in named.values() if s.path in self._segments]
            stale = [n for n in names if n not in named and _stands_for(kept, f"{folder}/{n}")]
            self._gone.update(f"{folder}/{name}" for name in stale)

    def _last_folders(self) -> list[str]:
        dates = sorted({s.partition.split("/")[1] for s in self._segments.values()})
        last = dates[-_CHECKED_DAYS:]
        return sorted(
            {s.partition for s in self._segments.values() if s.partition.split("/")[1] in last}
        )


def _stands_for(kept: list[Segment], path: str) -> bool:
    """Whether one of these objects has all the rows of another one, or is a later snapshot."""
    told = told_by(path)
    if told is None:
        began = path.rpartition("-")[0]
        return any(s.key is not None and s.path.rpartition("-")[0] == began for s in kept)
    named = filter(None, (told_by(s.path) for s in kept))
    return any(n.period.holds(told.period) and told.made_of <= n.made_of for n in named)
