"""A walk of every mounted cgroup hierarchy: what exists already.

Done after the tracepoints are attached, so that nothing born meanwhile is missed; what
both tell, the ledger takes once. A directory's inode number is the kernel's cgroup id.
"""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cotenant.identity.ids import V2
from cotenant.identity.ledger import Ledger
from cotenant.identity.path.procfile import split_line
from cotenant.identity.text import lines, path_text

_CGROUPS_MAX: Final = 1 << 20
_OCTAL: Final = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """Where a hierarchy can be seen."""

    hierarchy: int
    controllers: tuple[str, ...]  # Empty for version 2.
    directory: Path
    root: str  # The cgroup at its top; "/" in the host's cgroup namespace.


@dataclass(frozen=True, slots=True)
class Found:
    """A cgroup that exists now."""

    hierarchy: int
    kernel_id: int
    path: str
    directory: str  # Where its files are; in the file system's own spelling, unlike the path.
    owner_uid: int


def mounts(proc: Path = Path("/proc"), process: str = "self") -> list[Mount]:
    """Every cgroup hierarchy that is mounted, once; version 2 first."""
    numbers = _hierarchy_numbers(proc / process / "cgroup")
    found: dict[int, Mount] = {}
    for line in (proc / process / "mountinfo").read_bytes().split(b"\n"):
        mount = _mount(line, numbers)
        if mount is None:
            continue
        known = found.get(mount.hierarchy)
        # A bind mount may show a part only; the widest view counts.
        if known is None or len(mount.root) < len(known.root):
            found[mount.hierarchy] = mount
    return [found[number] for number in sorted(found)]


def _hierarchy_numbers(file: Path) -> dict[str, int]:
    """The kernel's number of each v1 controller's hierarchy."""
    numbers: dict[str, int] = {}
    for raw in lines(file.read_bytes()):
        line = split_line(raw)
        if line and line.hierarchy != V2:
            numbers |= dict.fromkeys(line.controllers.split(","), line.hierarchy)
    return numbers


def _mount(line: bytes, numbers: dict[str, int]) -> Mount | None:
    before, _, after = line.partition(b" - ")
    fields, tail = before.split(b" "), after.split(b" ")
    if len(fields) < 5 or len(tail) < 3 or tail[0] not in (b"cgroup", b"cgroup2"):
        return None
    root, directory = path_text(_unescape(fields[3])), Path(os.fsdecode(_unescape(fields[4])))
    if tail[0] == b"cgroup2":
        return Mount(V2, (), directory, root)
    options = path_text(tail[2]).split(",")
    controllers = tuple(option for option in options if option in numbers)
    if not controllers:
        return None
    return Mount(numbers[controllers[0]], controllers, directory, root)


def _unescape(field: bytes) -> bytes:
    return _OCTAL.sub(lambda match: bytes([int(match[1], 8)]), field)


def walk(mount: Mount) -> Iterator[Found]:
    """Every cgroup below a mount, its top first; what vanishes meanwhile is left out."""
    root = mount.root if mount.root.startswith("/") and "/.." not in mount.root else "/"
    stack = [(os.fsencode(mount.directory), root)]
    count = 0
    while stack and count < _CGROUPS_MAX:
        directory, path = stack.pop()
        try:
            status = os.stat(directory, follow_symlinks=False)
            with os.scandir(directory) as entries:
                children = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        count += 1
        yield Found(mount.hierarchy, status.st_ino, path, os.fsdecode(directory), status.st_uid)
        above = path.rstrip("/")
        stack.extend(
            (b"%b/%b" % (directory, name), f"{above}/{path_text(name)}") for name in children
        )


def survey(
    ledger: Ledger, hierarchies: list[Mount], wanted: Callable[[Found], bool] = lambda _: True
) -> int:
    """Tell the ledger of every cgroup that exists and is wanted; how many those are."""
    count = 0
    for mount in hierarchies:
        for found in filter(wanted, walk(mount)):
            ledger.born(found.hierarchy, found.kernel_id, found.path, owner_uid=found.owner_uid)
            count += 1
    return count
