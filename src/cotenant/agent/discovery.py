"""Finding libraries, before their first use where that can be done.

    host         the usual directories, at start
    running      what processes have mapped already, at start
    mounts       the layers of what the host mounts, before a cgroup is made for it
    containers   the new root of a process that enters a new cgroup, before it runs its program
    later        what anybody maps as code afterwards

All of it reads tenants' files, which may be slow or never answer; so it runs in a thread of its
own, and nothing else waits for it.
"""

import contextlib
import itertools
import os
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from cotenant.agent.channel import Closed, Message, trouble
from cotenant.agent.libraries import Libraries
from cotenant.agent.mounts import library_path, mount_namespace, mounted
from cotenant.agent.search import find_libraries, looks_like_library
from cotenant.agent.watch import Mapped
from cotenant.probes.inodes import Inode, code_mappings
from cotenant.probes.roots import open_file, open_mapping, open_root

_K = TypeVar("_K")

_SEEN_MAX: Final = 65536
_SWEEP_EVERY_S: Final = 5.0
LINGER_NS: Final = 10_000_000_000
# A container's root appears some time after its first process has entered the cgroup.
_LOOK_AGAIN_S: Final = (0.0, 0.003, 0.008, 0.02, 0.04, 0.07, 0.12, 0.2, 0.4, 0.8)


@dataclass(frozen=True, slots=True)
class _Look:
    """Look at the root of this process, and once more later."""

    pid: int
    attempt: int = 0


_Item = _Look | Mapped | Callable[[], None] | None
# What must be done before somebody's first call goes before what may be any program's start.
_URGENT: Final = 0
_SOON: Final = 1


class Discovery:
    """Feeds ``Libraries`` from what happens on the host."""

    def __init__(
        self,
        libraries: Libraries,
        code_program: int,
        tell: Callable[[Message], None],
        *,
        linger_ns: int = LINGER_NS,
    ) -> None:
        self._libraries = libraries
        self._code_program = code_program
        self._tell = tell
        self._linger_ns = linger_ns
        self._queue: queue.PriorityQueue[tuple[int, int, _Item]] = queue.PriorityQueue()
        self._order = itertools.count()
        self._sweepers: list[Callable[[set[int]], None]] = []
        self._later: list[tuple[float, _Look]] = []
        self._seen: OrderedDict[bytes, None] = OrderedDict()
        self._looked: OrderedDict[str, None] = OrderedDict()
        self._home = mount_namespace()
        about = os.stat("/")
        self._home_root = (about.st_dev, about.st_ino)
        self._learn_home()
        self._thread = threading.Thread(target=self._run, name="discovery", daemon=True)

    def scan(self) -> None:
        """Everything that is there already; called once, before recording is announced."""
        root = open_root(os.getpid())
        try:
            self._consider_all(root, "", (), host=True)
        finally:
            os.close(root)
        mappings = code_mappings(self._code_program)
        now = time.monotonic_ns()
        seen: set[Inode] = set()
        for mapping in mappings:
            inode = Inode(int(mapping["device"]), int(mapping["inode"]), int(mapping["generation"]))
            if inode not in seen and self._libraries.probed(inode) is None:
                seen.add(inode)
                place = int(mapping["pid"]), int(mapping["start"]), int(mapping["end"])
                with self._surviving():
                    self._consider_mapping(*place, "", now)

    def start(self) -> None:
        """Follow what comes, in the background."""
        self._thread.start()

    def stop(self) -> None:
        """Take no more; waits for what is under way, but not for ever."""
        self._put(_URGENT, None)
        if self._thread.is_alive():
            self._thread.join(timeout=2)

    def mapped(self, mapped: Mapped) -> None:
        """Somebody mapped a file as code."""
        if mapped.key not in self._seen and mapped.path.startswith("/"):
            self._put(_URGENT if looks_like_library(mapped.path) else _SOON, mapped)

    def entered(self, pid: int) -> None:
        """A process entered a new cgroup, or started a program in a root of its own."""
        self._put(_URGENT, _Look(pid))

    def mounted(self, layers: list[str]) -> None:
        """The host has mounted something made of these directories: perhaps a container's root."""
        self._put(_URGENT, lambda: self._search_layers(layers))

    def rest(self, functions: frozenset[int], number: int) -> None:
        """These functions cost too much: no probes on them until told otherwise."""
        self._put(_URGENT, lambda: self._libraries.rest(functions, number))

    def do(self, work: Callable[[], None]) -> None:
        """Something else that may take long, in its turn."""
        self._put(_URGENT, work)

    def when_swept(self, sweeper: Callable[[set[int]], None]) -> None:
        """Call this now and then with the processes that run."""
        self._sweepers.append(sweeper)

    def _put(self, priority: int, item: _Item) -> None:
        self._queue.put((priority, next(self._order), item))

    def _run(self) -> None:
        with contextlib.suppress(Closed):
            self._follow_all()

    def _follow_all(self) -> None:
        swept = time.monotonic()
        while True:
            wait = min((due for due, _ in self._later), default=time.monotonic() + 1)
            try:
                _, _, item = self._queue.get(timeout=max(0.0, wait - time.monotonic()))
                if item is None:
                    return
                self._handle(item)
            except queue.Empty:
                pass
            now = time.monotonic()
            for due in [entry for entry in self._later if entry[0] <= now]:
                self._later.remove(due)
                self._handle(due[1])
            if now - swept > _SWEEP_EVERY_S:
                swept = now
                with self._surviving():
                    self._sweep()

    @contextlib.contextmanager
    def _surviving(self) -> Iterator[None]:
        """What one tenant's file or process does to us must not end the search for all others."""
        try:
            yield
        except Closed:
            raise
        except OSError:
            pass  # A process may be gone by now; then there is nothing to probe.
        except Exception as error:  # noqa: BLE001 - a tenant may bring about any
            self._tell(trouble("discovery", error))

    def _handle(self, item: _Look | Mapped | Callable[[], None]) -> None:
        with self._surviving():
            if isinstance(item, Mapped):
                self._follow(item)
                return
            if not isinstance(item, _Look):
                item()
                return
            if mount_namespace(item.pid) != self._home:
                self._search_root(item.pid)
            if item.attempt + 1 < len(_LOOK_AGAIN_S):
                delay = _LOOK_AGAIN_S[item.attempt + 1] - _LOOK_AGAIN_S[item.attempt]
                self._later.append((time.monotonic() + delay, _Look(item.pid, item.attempt + 1)))

    def _remember(self, among: OrderedDict[_K, None], key: _K) -> bool:
        """Whether this is the first time."""
        if key in among:
            return False
        among[key] = None
        while len(among) > _SEEN_MAX:
            among.popitem(last=False)
        return True

    def _follow(self, item: Mapped) -> None:
        """Look at a file that was mapped, once.

        A process that is gone already leaves the file for the next one; and what is called like
        a library of ours but is none may not be whole yet.
        """
        if item.key in self._seen:
            return
        try:
            ours = self._consider_mapping(item.pid, item.start, item.end, item.path, item.when_ns)
        except OSError:
            if looks_like_library(item.path):
                self._libraries.missed(item.inode, item.path, item.when_ns)
            return
        if ours or not looks_like_library(item.path):
            self._remember(self._seen, item.key)

    def _consider_mapping(self, pid: int, start: int, end: int, path: str, when_ns: int) -> bool:
        try:
            fd = open_mapping(pid, start, end)
        except OSError:
            if not path:
                return False
            fd = self._open_in_root(pid, path)
        if not path:
            path = os.readlink(f"/proc/self/fd/{fd}")
        return self._libraries.consider(fd, path, mapped_ns=when_ns)

    def _open_in_root(self, pid: int, path: str) -> int:
        root = open_root(pid)
        try:
            return open_file(root, path)
        finally:
            os.close(root)

    def _search_root(self, pid: int) -> None:
        """Probe the libraries in the root of a process, and in what it has mounted.

        A runtime assembles the new root somewhere below the old one and moves into it last, so
        every mount point that is not the host's own is searched as if it were a root. Of an
        overlay the layers are searched: until the runtime has moved, a file that is open in the
        mount keeps whoever mounted it from unmounting it.
        """
        root = open_root(pid)
        try:
            about = os.fstat(root)
            here = f"{mount_namespace(pid)} {about.st_dev} {about.st_ino}"
            there = [m for m in mounted(pid) if m.point not in self._home_points and m.point != "/"]
            prefixes = [mount.point for mount in there if not mount.layers]
            for mount in there:
                if mount.layers and self._remember(self._looked, f"{here} {mount.point}"):
                    self._search_layers(list(mount.layers))
            if (about.st_dev, about.st_ino) != self._home_root:
                prefixes.append("")
            told = [p for p in library_path(pid) if self._remember(self._looked, f"{here} ld {p}")]
            self._consider_all(root, "/nonexistent", tuple(told))
            for prefix in prefixes:
                if self._remember(self._looked, f"{here} {prefix}"):
                    self._consider_all(root, prefix, (prefix,) if prefix else ())
        finally:
            os.close(root)

    def _search_layers(self, layers: list[str]) -> None:
        for layer in layers:
            with contextlib.suppress(OSError):
                root = os.open(layer, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    about = os.fstat(root)
                    if self._remember(self._looked, f"layer {about.st_dev} {about.st_ino}"):
                        self._consider_all(root, "", ())
                finally:
                    os.close(root)

    def _consider_all(
        self, root: int, prefix: str, extra: tuple[str, ...], *, host: bool = False
    ) -> None:
        for path in find_libraries(root, prefix, extra):
            with self._surviving():
                fd = open_file(root, path)
                self._libraries.consider(fd, path, mapped_ns=None, host=host)

    def _learn_home(self) -> None:
        """What the host itself has mounted: not the root of a container that starts now."""
        self._home_points = frozenset(mount.point for mount in mounted("self"))

    def _sweep(self) -> None:
        mappings = code_mappings(self._code_program)
        mapped = {Inode(int(m["device"]), int(m["inode"]), int(m["generation"])) for m in mappings}
        if self._libraries.sweep(mapped, linger_ns=self._linger_ns):
            # What was let go is worth a look when it comes again.
            self._seen.clear()
            self._looked.clear()
        for sweeper in self._sweepers:
            sweeper(set(np.unique(mappings["pid"]).tolist()))
