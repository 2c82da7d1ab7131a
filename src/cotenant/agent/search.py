"""Where libraries lie in a file system that nobody has used yet.

A container's libraries are probed when its root is mounted, before its first process runs, so
that its first call is seen. The search is bounded: a few directories, by file name.
"""

import os
import re
from collections.abc import Iterator
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
_ENTRIES_MAX: Final = 20_000
_OWN_MAX: Final = 64


def looks_like_library(path: str) -> bool:
    """Whether a file is called as libraries of ours are."""
    return _NAMES.match(os.path.basename(path)) is not None


def _list(root: int, path: str) -> list[str]:
    try:
        fd = open_below(root, path, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        with os.scandir(fd) as entries:
            return [entry.name for _, entry in zip(range(_ENTRIES_MAX), entries, strict=False)]
    except OSError:
        return []
    finally:
        os.close(fd)


def _libraries_in(root: int, directory: str) -> Iterator[str]:
    # By name, the driver comes first: every launch passes through it.
    for name in sorted(_list(root, directory)):
        if _NAMES.match(name):
            yield f"{directory}/{name}"


def _python_directories(root: int) -> Iterator[str]:
    for parent in _PYTHON_PARENTS:
        for version in _list(root, parent):
            if not version.startswith("python3"):
                continue
            for packages in _PACKAGES:
                base = f"{parent}/{version}/{packages}"
                yield f"{base}/torch/lib"
                for vendor in _list(root, f"{base}/nvidia"):
                    yield f"{base}/nvidia/{vendor}/lib"


def _own_directories(root: int, prefix: str) -> Iterator[str]:
    """Software that brings its own place along."""
    for name in _list(root, f"{prefix}/opt")[:_OWN_MAX]:
        yield f"{prefix}/opt/{name}"
        yield f"{prefix}/opt/{name}/lib"


def find_libraries(root: int, prefix: str, extra: tuple[str, ...] = ()) -> Iterator[str]:
    """Paths below ``root`` + ``prefix`` that look like libraries of ours."""
    seen = set()
    directories = [*(prefix + d for d in _DIRECTORIES), *_own_directories(root, prefix)]
    if not prefix:
        directories += list(_python_directories(root))
    for directory in (*extra, *directories):
        if directory in seen:
            continue
        seen.add(directory)
        if looks_like_library(directory):
            # A single file mounted into a container, as GPU runtimes do with the driver.
            yield directory
        else:
            yield from _libraries_in(root, directory)
