"""Fetches from a far store what a question needs, into a directory that is a store."""

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from cotenant.errors import StoreError
from cotenant.remote.cache import Cache, cache_directory, remove_view
from cotenant.remote.place import FarPlace, Listed, place_of
from cotenant.store.durable import part_of
from cotenant.store.layout import MANIFESTS, MARK, node_name
from cotenant.store.manifest import (
    Manifest,
    Segment,
    manifest_content,
    named_segments,
    parse_manifest,
)

_AT_ONCE: Final = 8  # Requests under way.
_TRIES: Final = 5
_SETTLED_NS: Final = 2_000_000_000  # A bucket tells the second in which an object was replaced.

Needed = Callable[[Segment], bool]
Told = Callable[[int, int], object]


class FarStore:
    """A far store, seen through a cache."""

    def __init__(self, place: FarPlace, cache: Cache, nodes: Collection[str] = ()) -> None:
        self._place = place
        self._cache = cache
        self._nodes = nodes

    @contextmanager
    def view(self) -> Iterator[Path]:
        """A directory with the manifests; ``fill`` brings what they name."""
        view, lock = self._cache.new_view()
        try:
            self._cache.keep(MARK, self._mark())
            self._cache.link(MARK, view)
            self._name(view, self._manifests())
            yield view
        finally:
            remove_view(view, lock)

    def fill(self, view: Path, needed: Needed, told: Told = lambda _, __: None) -> None:
        """Fetch the needed objects, and have the view's manifests name only those.

        Objects may be folded into others meanwhile: then the manifests are read again.
        """
        for tries in range(_TRIES):
            manifests = {
                name: replace(manifest, segments=tuple(filter(needed, manifest.segments)))
                for name, manifest in self._manifests().items()
            }
            segments = named_segments(manifests.values())
            try:
                self._fetch(segments, told)
                break
            except FileNotFoundError as error:
                if tries == _TRIES - 1:
                    raise StoreError(
                        f"{self._place.name} lacks {error}, which a manifest names; ship it again"
                    ) from error
        for segment in segments:
            self._cache.link(segment.path, view)
        self._name(view, manifests)

    def _mark(self) -> bytes:
        try:
            return self._place.read(MARK)
        except FileNotFoundError as error:
            raise StoreError(
                f"{self._place.name} is not a store; `cotenant ship --to` makes one"
            ) from error

    def _manifests(self) -> dict[str, Manifest]:
        """By the name of their file, those of the nodes that are asked about."""
        listed = self._place.listed(MANIFESTS)
        wanted = {f"{node_name(node)}.json" for node in self._nodes}
        # Of a node that is not there, whoever asks about it is told by its names.
        names = [n for n in listed if n.endswith(".json") and (not wanted or n in wanted)]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            read = pool.map(lambda name: self._manifest(name, listed[name]), names)
            return dict(zip(names, read, strict=True))

    def _manifest(self, name: str, listed: Listed) -> Manifest:
        path = f"{MANIFESTS}/{name}"
        status = self._cache.status(path)
        if (
            status is None
            or (status.st_size, status.st_mtime_ns) != (listed.bytes, listed.changed_ns)
            or status.st_ctime_ns < listed.changed_ns + _SETTLED_NS
        ):
            self._cache.keep(path, self._place.read(path), listed.changed_ns)
        return parse_manifest(self._cache.read(path), f"{self._place.name}/{path}")

    def _fetch(self, segments: list[Segment], told: Told) -> None:
        self._cache.make_room((s.path, s.bytes) for s in segments)
        missing = [s for s in segments if not self._cache.has(s.path, s.bytes)]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            futures = [pool.submit(self._bring, segment) for segment in missing]
            try:
                for done, future in enumerate(futures):
                    told(done, len(missing))
                    future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise

    def _bring(self, segment: Segment) -> None:
        try:
            content = self._place.read(segment.path)
        except FileNotFoundError as error:
            raise FileNotFoundError(segment.path) from error
        if len(content) != segment.bytes:
            raise FileNotFoundError(segment.path)  # Being replaced by one of the same name.
        self._cache.keep(segment.path, content)

    @staticmethod
    def _name(view: Path, manifests: dict[str, Manifest]) -> None:
        (view / MANIFESTS).mkdir(mode=0o700, exist_ok=True)
        for name, manifest in manifests.items():
            file = view / MANIFESTS / name
            part_of(file).write_bytes(manifest_content(manifest))
            part_of(file).rename(file)


def far_store(where: str, most_bytes: int, nodes: Collection[str] = ()) -> FarStore:
    """The store at this address, seen through this user's cache of it."""
    return FarStore(place_of(where), Cache(cache_directory(), where, most_bytes), nodes)
