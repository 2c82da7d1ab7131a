"""BPF objects: those that there are, and those that a process has open."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

KINDS = ("link", "map", "prog")

Object = tuple[str, int]


def listed(kind: str) -> list[dict[str, Any]]:
    """Every object of a kind in the kernel, as bpftool tells it."""
    tool = shutil.which("bpftool", path=f"{os.environ['PATH']}:/usr/sbin")
    assert tool is not None
    # Objects of others may go while they are listed: then it fails, and the rest is there.
    told = subprocess.run([tool, "-j", kind], capture_output=True, check=False)
    return [each for each in json.loads(told.stdout or b"[]") if "id" in each]


def in_kernel() -> set[Object]:
    """All BPF objects there are."""
    return {(kind, each["id"]) for kind in KINDS for each in listed(kind)}


def held(pids: Iterable[int]) -> set[Object]:
    """BPF objects that processes have open."""
    found = set()
    for pid in pids:
        with suppress(OSError):
            for info in Path(f"/proc/{pid}/fdinfo").iterdir():
                with suppress(OSError):
                    for line in info.read_text().splitlines():
                        kind, _, number = line.partition("_id:")
                        if kind in KINDS:
                            found.add((kind, int(number)))
    return found
