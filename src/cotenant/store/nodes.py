"""The nodes of a store that a reader looks at: all of them, or those of its choice."""

import difflib
from collections.abc import Iterable
from pathlib import Path

from cotenant.errors import QuestionError
from cotenant.schema import TABLES
from cotenant.store.absence import Absent
from cotenant.store.layout import node_of
from cotenant.store.manifest import (
    Manifest,
    Segment,
    Stamp,
    Version,
    manifest_files,
    manifest_path,
    named_segments,
    partitions,
    read_manifest,
    versions,
    walk,
)


class Nodes:
    """A store, or these nodes of it; of manifests, those that were replaced are read again."""

    def __init__(self, root: Path, names: Iterable[str] = ()) -> None:
        self.root = root
        self.names = frozenset(names)
        self._read: dict[Path, tuple[Version, Manifest | None]] = {}

    def stamp(self) -> Stamp:
        """Differs when any of the manifests was replaced since."""
        return tuple(versions(self._files()).items())

    def written_ns(self) -> dict[str, int]:
        """When each of them that has a manifest was last written to."""
        return {_node(path.stem): changed_ns for path, (_, _, changed_ns) in self.stamp()}

    def absent(self) -> dict[str, Absent]:
        """Of which times each of them keeps no rows, where the manifest that was read says so."""
        return {
            _node(path.stem): manifest.absent
            for path, (_, manifest) in self._read.items()
            if manifest is not None and manifest.absent
        }

    def segments(self) -> list[Segment]:
        """What the manifests name, and what nodes without one left; QuestionError: see `check`."""
        self.check()
        self._read = {p: self._manifest(p, v) for p, v in versions(self._files()).items()}
        skip = frozenset(path.stem for path in manifest_files(self.root))
        left = [s for s in walk(self.root, skip) if not self.names or s.node in self.names]
        manifests = [manifest for _, manifest in self._read.values() if manifest is not None]
        missing = [s for manifest in manifests for s in manifest.missing if s.table in TABLES]
        return named_segments(manifests) + missing + left

    def chosen(self) -> list[str]:
        """Those of the store that are looked at, by name."""
        return [name for name in all_nodes(self.root) if not self.names or name in self.names]

    def check(self) -> None:
        """Raise QuestionError if there is no node of one of the names."""
        if not self.names:
            return
        known = all_nodes(self.root)
        if not known:
            raise QuestionError(f"{self.root} has no nodes yet: nothing was recorded")
        for name in sorted(self.names - set(known)):
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
            hint = f"did you mean {', '.join(near)}?" if near else f"there are {_some(known)}"
            raise QuestionError(f"there is no node {name}; {hint}")

    def _files(self) -> list[Path]:
        named = [manifest_path(self.root, name) for name in sorted(self.names)]
        return named or manifest_files(self.root)

    def _manifest(self, path: Path, version: Version) -> tuple[Version, Manifest | None]:
        known = self._read.get(path)
        if known is not None and known[0] == version:
            return known
        return version, read_manifest(path)


def all_nodes(root: Path) -> list[str]:
    """The nodes of a store, by name."""
    stems = frozenset(path.stem for path in manifest_files(root))
    return sorted({*map(node_of, partitions(root, stems)), *map(_node, stems)})


def _node(stem: str) -> str:
    """The node that a manifest's file is named after."""
    return node_of(f"table/date/node={stem}")


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown
