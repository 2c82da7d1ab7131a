"""What a process has mounted, as far as the search for libraries needs to know."""

import os
import re
from pathlib import Path

_ESCAPE = re.compile(rb"\\([0-7]{3})")


# File systems that hold no libraries.
_NO_FILES = frozenset(
    b"proc sysfs cgroup cgroup2 devpts mqueue devtmpfs securityfs debugfs tracefs bpf pstore "
    b"configfs fusectl hugetlbfs autofs nsfs binfmt_misc rpc_pipefs".split()
)


def mount_points(pid: int | str) -> list[str]:
    """Where a process has mounted file systems with files, as it names them."""
    points = []
    for line in Path(f"/proc/{pid}/mountinfo").read_bytes().splitlines():
        about, _, kind = line.partition(b" - ")
        words, source = about.split(), kind.split()
        if len(words) > 4 and source and source[0] not in _NO_FILES:
            plain = _ESCAPE.sub(lambda match: bytes([int(match[1], 8)]), words[4])
            points.append(os.fsdecode(plain))
    return points


def mount_namespace(pid: int | str = "self") -> int:
    """The mount namespace of a process."""
    return os.stat(f"/proc/{pid}/ns/mnt").st_ino


def library_path(pid: int) -> tuple[str, ...]:
    """Directories that the process was told to search first."""
    for entry in Path(f"/proc/{pid}/environ").read_bytes()[: 1 << 20].split(b"\0"):
        if entry.startswith(b"LD_LIBRARY_PATH="):
            found = os.fsdecode(entry.removeprefix(b"LD_LIBRARY_PATH=")).split(":")
            return tuple(path.rstrip("/") for path in found if path.startswith("/"))[:64]
    return ()
