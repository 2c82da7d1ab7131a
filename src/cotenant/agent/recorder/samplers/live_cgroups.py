"""Cgroups that the ledger knows, and where their files are.

There is no walk: below its own cgroup a tenant may make as many as it likes, and how long a walk
takes would be its choice. The ledger knows those that are told apart, a bounded number of each
tenant.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from cotenant.identity.ledger import Ledger
from cotenant.identity.walk import Mount

_SPELLED_OUT: Final = re.compile(rb"\\x([89a-f][0-9a-f])")


class LiveCgroup(NamedTuple):
    """A cgroup that is there now."""

    kernel_id: int
    path: str
    directory: Path


def live_cgroups(ledger: Ledger, mount: Mount) -> Iterator[LiveCgroup]:
    """Those of a mounted hierarchy; makes no entry in the ledger."""
    for kernel_id, path in ledger.live(mount.hierarchy):
        directory = _directory(mount, kernel_id, path)
        if directory is not None:
            yield LiveCgroup(kernel_id, path, directory)


def row_id(ledger: Ledger, mount: Mount, cgroup: LiveCgroup) -> int:
    """The id that its rows carry."""
    ids = np.array([cgroup.kernel_id], np.uint64)
    return int(ledger.translate_in(mount.hierarchy, ids)[0])


def _directory(mount: Mount, kernel_id: int, path: str) -> Path | None:
    """Where its files are; None if it cannot be seen, or another cgroup has its path by now."""
    root = mount.root.rstrip("/") if "/.." not in mount.root else ""  # As the walk has it.
    if path != root and not path.startswith(f"{root}/"):
        return None
    below = path[len(root) :].encode().rstrip(b"/")
    # A byte that is not UTF-8 is spelled out in a path; but a name may be spelled like that.
    raw = _SPELLED_OUT.sub(lambda match: bytes([int(match[1], 16)]), below)
    for name in dict.fromkeys((below, raw)):
        directory = os.fsencode(mount.directory) + name
        try:
            if os.stat(directory, follow_symlinks=False).st_ino == kernel_id:
                return Path(os.fsdecode(directory))
        except (OSError, ValueError):
            continue
    return None
