"""BPF objects: those that there are, and those that a process has open."""

import ctypes
import errno
import json
import os
import shutil
import struct
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cotenant.probes.syscalls import bpf

KINDS = ("link", "map", "prog")
_OPEN_BY_ID = {"prog": 13, "map": 14, "link": 30}

Object = tuple[str, int]

_SYS_BPF = 321
_PROG_GET_NEXT_ID = 11
_libc = ctypes.CDLL(None, use_errno=True)


def listed(kind: str) -> list[dict[str, Any]]:
    """Every object of a kind in the kernel, as bpftool tells it."""
    tool = shutil.which("bpftool", path=f"{os.environ['PATH']}:/usr/sbin")
    assert tool is not None
    # Objects of others may go while they are listed: then it fails, and the rest is there.
    told = subprocess.run([tool, "-j", kind], capture_output=True, check=False)
    return [each for each in json.loads(told.stdout or b"[]") if "id" in each]


def program_ids() -> set[int]:
    """Of all programs there are; a hundred times as fast as bpftool."""
    found: set[int] = set()
    attributes = (ctypes.c_uint32 * 32)()  # After which id, then the next one.
    while _libc.syscall(_SYS_BPF, _PROG_GET_NEXT_ID, attributes, ctypes.sizeof(attributes)) == 0:
        attributes[0] = attributes[1]
        found.add(attributes[1])
    assert ctypes.get_errno() == errno.ENOENT, os.strerror(ctypes.get_errno())
    return found


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


@contextmanager
def looked_at(objects: Iterable[Object]) -> Iterator[None]:
    """Somebody else who opens objects and closes them meanwhile, again and again."""
    asked, stop = list(objects), threading.Event()

    def look() -> None:
        while not stop.is_set():
            for kind, number in asked:
                with suppress(OSError):
                    os.close(bpf(_OPEN_BY_ID[kind], struct.pack("I", number), "open by id"))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
