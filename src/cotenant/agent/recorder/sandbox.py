"""The recorder gives up what it no longer needs: its user, capabilities, files, system calls."""

import contextlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import numpy.ma  # noqa: F401 - Arrow asks for both when it first needs them
import pyarrow.acero  # noqa: F401

from cotenant.confine.capabilities import Capability, drop_capabilities, works_with
from cotenant.confine.landlock import confine
from cotenant.confine.seccomp import Role, refuse_calls
from cotenant.confine.user import RecorderUser, become
from cotenant.errors import StoreError
from cotenant.store.manifest import Machine, manifest_path, read_manifest, walk
from cotenant.store.writer import StoreWriter

_UMASK: Final = 0o027  # Files of the store are made with their final modes: chmod is refused.
_SOME: Final = Machine()
_OURSELVES: Final = Path("/proc/self")  # DuckDB looks for its own limits there.
# Until everything is read that lies where only root can go.
_UNTIL_ATTACHED: Final = (Capability.DAC_READ_SEARCH,)


def leave_root(user: RecorderUser) -> None:
    """Be nobody in particular from now on; what is read before probes are attached can be."""
    become(user, _UNTIL_ATTACHED)
    os.umask(_UMASK)


def open_store(path: Path, *, node: str, boot_id: str, machine: Machine = _SOME) -> StoreWriter:
    """Open the store without threads that would keep what this one gives up later."""
    known = None
    with contextlib.suppress(StoreError):
        known = read_manifest(manifest_path(path, node))
    if known is not None:
        machine.check(path, node, known)
    if known is None and any(segment.node == node for segment in walk(path)):
        # Segments are looked into: Arrow starts threads for that.
        works_with(_UNTIL_ATTACHED, lambda: _adopt(path, node, boot_id))
    return StoreWriter(path, node=node, boot_id=boot_id, machine=machine)


def _adopt(path: Path, node: str, boot_id: str) -> None:
    with StoreWriter(path, node=node, boot_id=boot_id) as writer:
        writer.note_adopted()


def enter_sandbox(store: Path, cgroups: Iterable[Path]) -> dict[str, Any]:
    """Keep only what recording into ``store`` takes; what ``sessions`` notes about it.

    Threads that start later inherit it, those that run already do not.
    """
    drop_capabilities()
    # Our modules may lie where only root can go: what is not there by now is nowhere the same.
    sys.meta_path.clear()
    return {
        "recorder_user": os.geteuid(),
        "landlock": confine(write=[store], read=[_OURSELVES, *cgroups]),
        "seccomp": refuse_calls(Role.RECORDER),
    }
