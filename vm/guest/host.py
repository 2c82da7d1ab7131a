"""The guest as a host: its cgroups, its settings, and tenants in it."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from vm import ROOT

CGROUPS: Final = Path("/sys/fs/cgroup")
SIM: Final = ROOT / "sim" / "build"
COTENANT: Final = [str(ROOT / ".venv/bin/python"), "-m", "cotenant"]
_V1: Final = ("memory", "pids", "cpu,cpuacct", "freezer", "devices", "blkio")
_SYS_ADMIN: Final = 21

# Starts a command without one capability that it could otherwise have.
_WITHOUT: Final = """
import ctypes, os, sys
number = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
data = (ctypes.c_uint32 * 6)()
assert libc.prctl(24, number, 0, 0, 0) == 0
assert libc.capget(header, data) == 0
for at in (0, 1, 2):
    data[at + 3 * (number // 32)] &= ~(1 << number % 32)
assert libc.capset(header, data) == 0
os.execv(sys.argv[2], sys.argv[2:])
"""


def prepare(job: dict[str, Any]) -> None:
    """Mount cgroups and set what the job wants to be set."""
    _mount_cgroups(job.get("cgroups", "v2"))
    for name, value in job.get("sysctl", {}).items():
        Path("/proc/sys", *name.split(".")).write_text(str(value))
    for module in ("overlay", "veth", "loop"):
        subprocess.run(["modprobe", "-q", module], check=False)


def _mount_cgroups(mode: str) -> None:
    if mode == "v2":
        _mount("cgroup2", CGROUPS)
        _delegate(CGROUPS)
        return
    subprocess.run(["mount", "-t", "tmpfs", "cgroup", CGROUPS], check=True)
    for controllers in _V1:
        place = CGROUPS / controllers.split(",")[0]
        place.mkdir()
        done = subprocess.run(
            ["mount", "-t", "cgroup", "-o", controllers, "cgroup", place],
            check=False, capture_output=True,
        )  # fmt: skip
        if done.returncode:
            place.rmdir()
    if mode == "hybrid":
        (CGROUPS / "unified").mkdir()
        _mount("cgroup2", CGROUPS / "unified")


def _mount(kind: str, place: Path) -> None:
    subprocess.run(["mount", "-t", kind, kind, place], check=True)


def _delegate(place: Path) -> None:
    controllers = (place / "cgroup.controllers").read_text().split()
    (place / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))


@dataclass(frozen=True, slots=True)
class Group:
    """A tenant's cgroup, in every hierarchy that is mounted."""

    name: str
    places: tuple[Path, ...]

    def enter(self) -> None:
        """Move the calling process in: for ``preexec_fn``."""
        for place in self.places:
            (place / "cgroup.procs").write_text(str(os.getpid()))

    def popen(self, command: list[Any], **options: Any) -> "subprocess.Popen[str]":
        """A command that starts inside."""
        words = [str(word) for word in command]
        return subprocess.Popen(words, preexec_fn=self.enter, text=True, **options)


def new_group(name: str) -> Group:
    """A tenant's cgroup."""
    roots = [CGROUPS] if (CGROUPS / "cgroup.procs").exists() else sorted(CGROUPS.iterdir())
    places = tuple(root / name for root in roots)
    for place in places:
        place.mkdir()
    return Group(name, places)


def without_sys_admin(command: list[str]) -> list[str]:
    """The same command, without that capability."""
    return [sys.executable, "-c", _WITHOUT, str(_SYS_ADMIN), *command]
