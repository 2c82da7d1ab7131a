"""Where libraries lie in a file system that nobody has used yet.

A container's libraries are probed when its root is mounted, before its first process runs, so
that its first call is seen. The search is bounded: a few directories, by file name.
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
# Below these, one directory per Python version holds packages that bring libraries along.
_PYTHON_PARENTS: Final = (
    "/usr/lib",
    "/usr/local/lib",
    "/opt/conda/lib",
    "/opt/venv/lib",
    "/venv/lib",
)
_PACKAGES: Final = ("dist-packages", "site-packages")
_ENTRIES_MAX: Final = 100_000
_DIRECTORY_MAX: Final = 20_000
_FILES_MAX: Final = 256
_OWN_MAX: Final = 64


def looks_like_library(path: str) -> bool:
    """Whether a file is called as libraries of ours are."""
    return _NAMES.match(os.path.basename(path)) is not None


class Search:
    """One search below a root: bounded as a whole, whatever lies there."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._seen: set[str] = set()
        self._entries = _ENTRIES_MAX
        self._files = _FILES_MAX
        self.left = 0  # Files and directories that were one too many.

    def usual(self, prefix: str = "") -> Iterator[str]:
        """Paths below ``prefix`` that look like libraries of ours, where they usually lie."""
        if prefix:
            yield from self.within([prefix])
        if looks_like_library(prefix):
            return
        yield from self.within(prefix + directory for directory in _DIRECTORIES)
        yield from self.within(self._own_directories(prefix))
        if not prefix:
            yield from self.within(self._python_directories())

    def within(self, directories: Iterable[str]) -> Iterator[str]:
        """Those in these directories, or at these paths."""
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
        # By name, the driver comes first: every launch passes through it.
        for name in sorted(self._list(directory)):
            if _NAMES.match(name):
                yield f"{directory}/{name}"

    def _list(self, path: str) -> list[str]:
        if not self._entries:
            self.left += 1
            return []
        try:
            fd = open_below(self._root, path, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK)
        except OSError:
            return []
        names: list[str] = []
        most = min(_DIRECTORY_MAX, self._entries)
        try:
            with os.scandir(fd) as entries:
                names += (entry.name for entry in islice(entries, most))
        except OSError:
            return []
        finally:
            os.close(fd)
            self._entries -= len(names)
        return names

    def _python_directories(self) -> Iterator[str]:
        for parent in _PYTHON_PARENTS:
            for version in self._list(parent):
                if not version.startswith("python3"):
                    continue
                for packages in _PACKAGES:
                    base = f"{parent}/{version}/{packages}"
                    yield f"{base}/torch/lib"
                    for vendor in self._list(f"{base}/nvidia"):
                        yield f"{base}/nvidia/{vendor}/lib"

    def _own_directories(self, prefix: str) -> Iterator[str]:
        """Software that brings its own place along."""
        for name in self._list(f"{prefix}/opt")[:_OWN_MAX]:
            yield f"{prefix}/opt/{name}"
            yield f"{prefix}/opt/{name}/lib"


def find_libraries(root: int) -> Iterator[str]:
    """Paths below ``root`` that look like libraries of ours."""
    return Search(root).usual()
