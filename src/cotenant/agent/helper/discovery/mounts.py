"""What is mounted, as far as the search for libraries needs to know."""

import os
import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant.agent.process import environment

_ESCAPE = re.compile(rb"\\([0-7]{3})")
# Separators, where no backslash makes them part of a name.
_OPTION_END = re.compile(rb"(?<!\\),")
_LAYER_END = re.compile(rb"(?<!\\):")


# File systems that hold no libraries.
_NO_FILES = frozenset(
    b"proc sysfs cgroup cgroup2 devpts mqueue devtmpfs securityfs debugfs tracefs bpf pstore "
    b"configfs fusectl hugetlbfs autofs nsfs binfmt_misc rpc_pipefs".split()
)
# Bounds on what a tenant has mounted: in a namespace of its own it may mount at will.
_TABLE_BYTES_MAX: Final = 1 << 20
_MOUNTS_MAX: Final = 256
_TOLD_MAX: Final = 64
_PROGRAM_MAX: Final = 4096
_PREFIX_VARIABLES: Final = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "PYTHONUSERBASE")


@dataclass(frozen=True, slots=True)
class Mounted:
    """A file system with files, where a process has it."""

    point: str
    layers: tuple[str, ...] = ()  # What an overlay is made of, where all of it can be found.


def mount_table(pid: int) -> bytes:
    """What a process has mounted, line by line, up to a bound."""
    with open(f"/proc/{pid}/mountinfo", "rb") as file:
        table = file.read(_TABLE_BYTES_MAX)
    whole, end, _ = table.rpartition(b"\n")
    return whole + end


def mounted(table: bytes, besides: AbstractSet[str] = frozenset()) -> tuple[list[Mounted], int]:
    """What is mounted beside these, as its process names it, and how many more there are.

    Beyond a bound only the newest are returned: a runtime adds to a copy of the host's table.
    """
    found: list[Mounted] = []
    left = 0
    for line in reversed(table.splitlines()):
        about, _, kind = line.partition(b" - ")
        words, source = about.split(), kind.split()
        if len(words) < 5 or not source or source[0] in _NO_FILES:
            continue
        point = _plain(words[4])
        if point in besides:
            continue
        if len(found) == _MOUNTS_MAX:
            left += 1
            continue
        parts = overlay_layers(line).get(line, ())
        whole = all(part.startswith("/") for part in parts)
        found.append(Mounted(point, parts if whole else ()))
    return found[::-1], left


def mount_points() -> frozenset[str]:
    """Where the host itself has mounted something."""
    table = Path("/proc/self/mountinfo").read_bytes()
    words = (line.split(maxsplit=5) for line in table.splitlines())
    return frozenset(_plain(line[4]) for line in words if len(line) > 4)


def _plain(word: bytes) -> str:
    return os.fsdecode(_ESCAPE.sub(lambda match: bytes([int(match[1], 8)]), word))


def overlay_layers(mountinfo: bytes) -> dict[bytes, tuple[str, ...]]:
    """The directories that each overlay mount is made of, by its line.

    A relative one is below the working directory of the process that mounted it.
    """
    found = {}
    for line in mountinfo.splitlines():
        kind = line.partition(b" - ")[2]
        source = kind.split()
        if len(source) > 2 and source[0] == b"overlay":
            found[line] = tuple(_layers(source[2]))
    return found


def _layers(options: bytes) -> Iterator[str]:
    for option in _OPTION_END.split(options):
        name, _, value = option.partition(b"=")
        if name in (b"lowerdir", b"lowerdir+", b"upperdir"):
            # Beyond "::" lies data that no path leads to.
            for layer in _LAYER_END.split(value.partition(b"::")[0]):
                yield _plain(layer).replace("\\:", ":").replace("\\,", ",")


class MountWatch:
    """Tells when the host mounts an overlay: the first thing a runtime makes is a container's root.

    The layers are searched, not the mount: a file that is held open there would keep the runtime
    from unmounting it. The layers stay, and their inodes are the same.
    """

    def __init__(self) -> None:
        self.fd = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._known = self._look().keys()

    def _look(self) -> dict[bytes, tuple[str, ...]]:
        return overlay_layers(Path("/proc/self/mountinfo").read_bytes())

    def new(self) -> list[str]:
        """Layers of what was mounted since the last look."""
        found = self._look()
        news = found.keys() - self._known
        self._known = found.keys()
        layers = [layer for line in sorted(news) for layer in found[line]]
        return [layer for layer in layers if layer.startswith("/")]


def mount_namespace(pid: int | str = "self") -> int:
    """The mount namespace of a process."""
    return os.stat(f"/proc/{pid}/ns/mnt").st_ino


def python_places(pid: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Prefixes of Python, and directories of packages, that the process was started with.

    The tenant chose all of it: it leads nowhere but to files below the tenant's own root.
    """
    prefixes: dict[str, None] = {}
    packages: tuple[str, ...] = ()
    for entry in environment(pid):
        name, _, value = os.fsdecode(entry).partition("=")
        if name in _PREFIX_VARIABLES:
            prefixes |= dict.fromkeys([value])
        elif name == "PATH":
            prefixes |= dict.fromkeys(map(_above_bin, value.split(":")))
        elif name == "PYTHONPATH":
            packages = _absolute(value.split(":"))
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        program = os.fsdecode(file.read(_PROGRAM_MAX).split(b"\0")[0])
    return _absolute([_above_bin(os.path.dirname(program)), *prefixes]), packages


def _above_bin(directory: str) -> str:
    """The prefix of a directory of programs; nothing if it is none."""
    return os.path.dirname(directory.rstrip("/")) if directory.rstrip("/").endswith("/bin") else ""


def _absolute(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(path.rstrip("/") for path in paths if path.startswith("/"))[:_TOLD_MAX]


def library_path(pid: int) -> tuple[str, ...]:
    """Directories of the process's LD_LIBRARY_PATH."""
    for entry in environment(pid):
        if entry.startswith(b"LD_LIBRARY_PATH="):
            found = os.fsdecode(entry.removeprefix(b"LD_LIBRARY_PATH=")).split(":")
            return _absolute(found)
    return ()
