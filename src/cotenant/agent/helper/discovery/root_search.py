"""Searching the roots of containers, and what they are made of; each place once.

Every search is a series of steps, one for each file that was found, so that whoever has many of
them is left and come back to.
"""

import contextlib
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final

from cotenant.agent.channel import Closed
from cotenant.agent.helper.discovery.directories import DirectorySearch
from cotenant.agent.helper.discovery.mounts import (
    Mounted,
    library_path,
    mount_namespace,
    mount_points,
    mount_table,
    mounted,
    python_places,
)
from cotenant.agent.helper.fair_queue import OURS, PassedOver
from cotenant.agent.helper.libraries.libraries import Libraries
from cotenant.agent.protocol.reports import Report, Trouble
from cotenant.probes.roots import open_below, open_file, open_root

_SEEN_MAX: Final = 65536

Steps = Iterator[None]


@contextlib.contextmanager
def surviving(tell: Callable[[Report], None]) -> Iterator[None]:
    """What one tenant's file or process does to us must not end the search for all others."""
    try:
        yield
    except Closed:
        raise
    except OSError:
        pass  # A process may be gone by now; then there is nothing to probe.
    except Exception as error:  # noqa: BLE001 - a tenant may bring about any
        tell(Trouble.by("discovery", error))


class RecentlySeen:
    """The newest of what was seen; by hash, since tenants choose how long their names are."""

    def __init__(self) -> None:
        self._seen: OrderedDict[int, None] = OrderedDict()

    def __contains__(self, thing: Hashable) -> bool:
        return hash(thing) in self._seen

    def add(self, thing: Hashable) -> bool:
        """Whether this is the first time."""
        key = hash(thing)
        if key in self._seen:
            return False
        self._seen[key] = None
        while len(self._seen) > _SEEN_MAX:
            self._seen.popitem(last=False)
        return True

    def clear(self) -> None:
        """Everything is new again."""
        self._seen.clear()


class RootSearch:
    """Feeds ``Libraries`` with the files of roots that somebody prepares or uses."""

    def __init__(
        self, libraries: Libraries, tell: Callable[[Report], None], passed_over: PassedOver
    ) -> None:
        self._libraries = libraries
        self._tell = tell
        self._passed_over = passed_over
        self.looked = RecentlySeen()
        # What the host itself has mounted: not the root of a container that starts now.
        self._home_points = mount_points() | {"/"}
        self.home = mount_namespace()
        about = os.stat("/")
        self._home_root = (about.st_dev, about.st_ino)

    def host(self) -> Steps:
        """The usual directories of the host."""
        root = open_root(os.getpid())
        try:
            yield from self._consider(root, DirectorySearch(root).everywhere(), OURS, host=True)
        finally:
            os.close(root)

    def process(self, pid: int, tenant: str) -> Steps:
        """The root of a process, and what it has mounted.

        A runtime assembles the new root somewhere below the old one and moves into it last, so
        every mount point that is not the host's own is searched as if it were a root. Of an
        overlay the layers are searched: until the runtime has moved, a file that is open in the
        mount keeps whoever mounted it from unmounting it.
        """
        namespace = mount_namespace(pid)
        if namespace == self.home:
            return
        root = open_root(pid)
        try:
            about = os.fstat(root)
            here = (namespace, about.st_dev, about.st_ino)
            search = DirectorySearch(root)
            new = self._new_mounts(pid, here, tenant)
            for mount in new:
                # As the tenant would find them: a path that it wrote leads to nothing else.
                yield from self._layers(root, mount.layers, tenant)
            yield from self._told(pid, root, here, search, tenant)
            for mount in new:
                if not mount.layers:
                    yield from self._consider(root, search.usual(mount.point), tenant)
            if here[1:] != self._home_root and self.looked.add((here, "at", "/")):
                yield from self._consider(root, search.everywhere(), tenant)
            # A volume full of data must not use up what the root needs.
            for mount in new:
                if not mount.layers:
                    yield from self._consider(root, search.environments(mount.point), tenant)
            self._count("files", tenant, search.left)
        finally:
            os.close(root)

    def job(self, pid: int, tenant: str) -> Steps:
        """What a process in the host's own root was told; it has run for a while."""
        if mount_namespace(pid) != self.home:
            return
        root = open_root(pid)
        try:
            search = DirectorySearch(root)
            yield from self._told(pid, root, self._home_root, search, tenant)
            self._count("files", tenant, search.left)
        finally:
            os.close(root)

    def _told(
        self, pid: int, root: int, here: tuple[int, ...], search: DirectorySearch, tenant: str
    ) -> Steps:
        """Where the process itself was told to look: its libraries, its Python's."""
        prefixes, packages = python_places(pid)
        for kind, paths, places in (
            ("ld", library_path(pid), lambda path: (path,)),
            ("prefix", prefixes, search.python),
            ("packages", packages, search.packages),
        ):
            for path in paths:
                if self.looked.add((here, kind, path)):
                    yield from self._consider(root, search.within(places(path)), tenant)

    def _new_mounts(self, pid: int, here: tuple[int, ...], tenant: str) -> list[Mounted]:
        table = mount_table(pid)
        if not self.looked.add((here, "table", table)):
            return []
        there, left = mounted(table, besides=self._home_points)
        self._count("mounts", tenant, left)
        return [mount for mount in there if self.looked.add((here, "at", mount.point))]

    def host_layers(self, layers: Iterable[str]) -> Steps:
        """Directories that the host has mounted something of."""
        root = open_root(os.getpid())
        try:
            yield from self._layers(root, layers, OURS)
        finally:
            os.close(root)

    def _layers(self, root: int, layers: Iterable[str], tenant: str) -> Steps:
        for layer in layers:
            try:
                place = open_below(root, layer, os.O_PATH | os.O_DIRECTORY)
            except OSError:
                continue
            try:
                about = os.fstat(place)
                if self.looked.add(("layer", about.st_dev, about.st_ino)):
                    search = DirectorySearch(place)
                    yield from self._consider(place, search.everywhere(), tenant)
                    self._count("files", tenant, search.left)
            finally:
                os.close(place)

    def _consider(
        self, root: int, paths: Iterator[str], tenant: str, *, host: bool = False
    ) -> Steps:
        for path in paths:
            with surviving(self._tell):
                fd = open_file(root, path)
                self._libraries.consider(fd, path, tenant, mapped_ns=None, host=host)
            yield

    def _count(self, what: str, tenant: str, number: int) -> None:
        if number:
            self._passed_over.add(what, tenant, number)
