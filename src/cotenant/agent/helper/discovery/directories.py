"""Where libraries are in a root that no process runs in yet.

A container's libraries are probed when its root is mounted, before its first process runs, so
that its first call is seen. The search is bounded, and goes by file name: first directories of the
system, then Python environments where people make them.
"""

import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from cotenant.probes.roots import open_below

_NAMES: Final = re.compile(
    r"lib(cuda|cudart|nccl)\.so(\.[0-9.]+)?$|lib(cudart|nccl)[-_.\w]*\.so[.0-9]*$|libtorch_cuda.*\.so$"
)

# How the kernel shows a file that has no path, or none any more.
_IN_MEMORY: Final = "memfd:"
_NAMELESS: Final = " (deleted)"

_DIRECTORIES: Final = (
    "/usr/lib/x86_64-linux-gnu",
    "/lib/x86_64-linux-gnu",
    "/usr/lib64",
    "/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/compat",
    "/opt/conda/lib",
)
# Prefixes of Python: lib/python3.*/ in them has packages that bring libraries along.
_PREFIXES: Final = ("/usr", "/usr/local", "/opt/conda", "/opt/venv", "/venv")
_PACKAGES: Final = ("dist-packages", "site-packages")
# Here and one level below people make environments of their own.
_WORK: Final = ("/app", "/workspace", "/opt", "/srv", "/root")
_HOMES: Final = "/home"
_ENVIRONMENTS: Final = (".venv", "venv", "env", ".local")
# Names of directories that are searched before their siblings.
_LIKELY: Final = re.compile(r"venv|env|conda|mamba|forge|python|torch|cuda|^app|^\.local$", re.I)
_ENTRIES_MAX: Final = 100_000
_DIRECTORY_MAX: Final = 20_000
_FILES_MAX: Final = 256
_OWN_MAX: Final = 64


def looks_like_library(path: str) -> bool:
    """Whether a file has the name of a library that we probe."""
    name = os.path.basename(path).removeprefix(_IN_MEMORY).removesuffix(_NAMELESS)
    return _NAMES.match(name) is not None


def _turn(entry: os.DirEntry[str]) -> tuple[str, bool, str]:
    """The driver first, since every launch passes through it; a file before links to it.

    So it is known by the name under which processes map it.
    """
    return entry.name.partition(".so")[0], entry.is_symlink(), entry.name


class DirectorySearch:
    """One search below a root, bounded as a whole."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._seen: set[str] = set()
        self._entries = _ENTRIES_MAX
        self._files = _FILES_MAX
        self.left = 0  # Files and directories beyond the bounds.

    def usual(self, prefix: str = "") -> Iterator[str]:
        """Paths in the usual directories below ``prefix`` that look like our libraries."""
        if prefix:
            yield from self.within([prefix])
        if looks_like_library(prefix):
            return
        yield from self.within(prefix + directory for directory in _DIRECTORIES)
        yield from self.within(self._own_directories(prefix))

    def environments(self, prefix: str = "") -> Iterator[str]:
        """Paths in Python environments below ``prefix``, wherever people make them."""
        for place in self._environments_below(prefix):
            yield from self.within(self.python(place))

    def everywhere(self) -> Iterator[str]:
        """Paths in usual directories, then in environments."""
        yield from self.usual()
        yield from self.environments()

    def within(self, directories: Iterable[str]) -> Iterator[str]:
        """Paths in these directories; one of these itself, if it looks like a library."""
        for directory in directories:
            if directory in self._seen:
                continue
            self._seen.add(directory)
            # A single file mounted into a container, as GPU runtimes do with the driver.
            alone = looks_like_library(directory)
            for path in (directory,) if alone else self._libraries_in(directory):
                if self._files:
                    self._files -= 1
                    yield path
                else:
                    self.left += 1

    def _libraries_in(self, directory: str) -> Iterator[str]:
        found = [entry for entry in self._scan(directory) if _NAMES.match(entry.name)]
        for entry in sorted(found, key=_turn):
            yield f"{directory}/{entry.name}"

    def _list(self, path: str) -> list[str]:
        return [entry.name for entry in self._scan(path)]

    def _scan(self, path: str) -> list[os.DirEntry[str]]:
        if not self._entries:
            self.left += 1
            return []
        try:
            fd = open_below(self._root, path, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK)
        except OSError:
            return []
        found: list[os.DirEntry[str]] = []
        most = min(_DIRECTORY_MAX, self._entries)
        try:
            with os.scandir(fd) as entries:
                found += islice(entries, most)
        except OSError:
            return []
        finally:
            os.close(fd)
            self._entries -= len(found)
        return found

    def python(self, prefix: str) -> Iterator[str]:
        """Where an installation or environment of Python has libraries."""
        yield f"{prefix}/lib"
        for parent in (f"{prefix}/lib", f"{prefix}/lib64"):
            for version in self._list(parent):
                if version.startswith("python3"):
                    for packages in _PACKAGES:
                        yield from self.packages(f"{parent}/{version}/{packages}")

    def packages(self, directory: str) -> Iterator[str]:
        """Where packages in a directory have libraries."""
        yield f"{directory}/torch/lib"
        for vendor in self._list(f"{directory}/nvidia"):
            yield f"{directory}/nvidia/{vendor}/lib"

    def _environments_below(self, prefix: str) -> Iterator[str]:
        """Prefixes of Python: the system's, and those that people made where they work."""
        if prefix:
            yield from self._around(prefix)
            return
        yield from _PREFIXES
        homes = [f"{_HOMES}/{name}" for name in self._list(_HOMES)[:_OWN_MAX]]
        for place in (*_WORK, *homes):
            yield from self._around(place)

    def _around(self, place: str) -> Iterator[str]:
        """Environments in a directory and in those in it."""
        names = self._list(place)
        yield from self._environments_in(place, names)
        for name in sorted(names, key=lambda name: not _LIKELY.search(name))[:_OWN_MAX]:
            below = f"{place}/{name}"
            yield from self._environments_in(below, self._list(below))

    def _environments_in(self, place: str, names: list[str]) -> Iterator[str]:
        if "lib" in names or "lib64" in names:
            yield place
        yield from (f"{place}/{name}" for name in _ENVIRONMENTS if name in names)
        if "envs" in names:
            yield from (f"{place}/envs/{name}" for name in self._list(f"{place}/envs")[:_OWN_MAX])

    def _own_directories(self, prefix: str) -> Iterator[str]:
        """Directories of software below /opt."""
        for name in self._list(f"{prefix}/opt")[:_OWN_MAX]:
            yield f"{prefix}/opt/{name}"
            yield f"{prefix}/opt/{name}/lib"


def find_libraries(root: int) -> Iterator[str]:
    """Paths below ``root`` that look like libraries of ours."""
    return DirectorySearch(root).everywhere()
