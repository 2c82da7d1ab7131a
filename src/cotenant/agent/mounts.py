"""What a process has mounted, as far as the search for libraries needs to know."""

import os
import re
from pathlib import Path

_ESCAPE = re.compile(rb"\\([0-7]{3})")


def mount_points(pid: int) -> list[str]:
    """Every mount point of a process, in its own numbering of paths."""
    points = []
    for line in Path(f"/proc/{pid}/mountinfo").read_bytes().splitlines():
        words = line.split()
        if len(words) > 4:
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
