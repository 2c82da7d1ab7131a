"""Real containers in few milliseconds: runc on overlay mounts, each with files of its own."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from tests.kernel.compiler import build_client

PLACE = "usr/lib/x86_64-linux-gnu"
CGROUPS = "cotenant-test-runc"


def remove_tree(cgroup: Path) -> None:
    """A cgroup and those below it, once the last process has left them."""
    for directory, _, _ in os.walk(cgroup, topdown=False):
        for _ in range(200):
            try:
                os.rmdir(directory)
                break
            except OSError:
                time.sleep(0.02)


def copy_needed(root: Path, program: Path) -> None:
    """The libraries that a program loads, but for those of CUDA."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
    for line in listed.stdout.splitlines():
        words = [word for word in line.split() if word.startswith("/")]
        if not words or "cudart" in words[0]:
            continue
        target = root / words[0].lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copyfile(os.path.realpath(words[0]), target)
            target.chmod(0o755)


def brief_root(root: Path) -> Path:
    """A root with the program ``/brief`` and no library of ours."""
    for directory in ("proc", "log", PLACE):
        (root / directory).mkdir(parents=True)
    copy_needed(root, build_client(root / "brief", "brief"))
    return root


@contextmanager
def runc_cgroups() -> Iterator[None]:
    """What runc makes in every hierarchy, gone afterwards."""
    yield
    for pattern in (f"*/{CGROUPS}", CGROUPS):
        for left in Path("/sys/fs/cgroup").glob(pattern):
            remove_tree(left)


@dataclass(frozen=True, slots=True)
class Container:
    """A container to be: a root of its own, over files that others share."""

    base: Path
    place: Path
    name: str = field(default_factory=lambda: uuid4().hex)

    @property
    def log(self) -> Path:
        """What its program wrote."""
        return self.place / "log"

    def add(self, file: Path, inside: str) -> None:
        """Give it a file of its own: an inode that nobody has seen."""
        target = self.place / "own" / inside
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)

    def run(self, *command: str) -> None:
        """Start it, wait for its end, remove it and its files."""
        start = self.start(*command)
        try:
            assert start.wait(timeout=60) == 0
        finally:
            self.remove()

    def start(self, *command: str) -> "subprocess.Popen[bytes]":
        """Start it."""
        for directory in ("own", "upper", "work", "rootfs", "log"):
            (self.place / directory).mkdir(parents=True, exist_ok=True)
        (self.place / "config.json").write_text(json.dumps(self._config(command)))
        layers = f"lowerdir={self.place}/own:{self.base},upperdir={self.place}/upper"
        subprocess.run(
            ["mount", "-t", "overlay", "overlay", "-o", f"{layers},workdir={self.place}/work",
             self.place / "rootfs"],
            check=True,
        )  # fmt: skip
        return subprocess.Popen(
            ["runc", "--root", self.place / "runc", "run", "--bundle", self.place, self.name],
            stdin=subprocess.DEVNULL,
        )

    def remove(self) -> None:
        """Its files go; what is in the log stays."""
        subprocess.run(["umount", self.place / "rootfs"], check=True)
        for directory in ("own", "upper", "work", "runc"):
            shutil.rmtree(self.place / directory, ignore_errors=True)

    def _config(self, command: tuple[str, ...]) -> dict[str, object]:
        bind = {"type": "bind", "options": ["rbind", "rw"]}
        return {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": 0, "gid": 0},
                "args": list(command),
                "cwd": "/",
            },
            "root": {"path": "rootfs"},
            "mounts": [
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/log", "source": str(self.log), **bind},
            ],
            "linux": {
                "cgroupsPath": f"/{CGROUPS}/{self.name}",
                "namespaces": [{"type": kind} for kind in ("mount", "pid", "ipc", "network")],
            },
        }
