"""A root file system just large enough for a simulated tenant: its own copy of every library."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from cotenant import sim
from cotenant.errors import CotenantError

_LIBRARIES: Final = ("libcuda.so.1", "libcudart.so.12", "libcudart.so.13", "libnccl.so.2")
_SHELL: Final = Path("/bin/sh")


@cache
def _needed(program: Path) -> set[Path]:
    """The shared libraries that a program loads, by the loader's own word.

    The loader maps the program as code. Asked once, before the recorder starts, it is no process
    that used a GPU library before its probes came.
    """
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    return {Path(path) for path in re.findall(r"(/\S+) \(0x", listed.stdout)}


def _copy(source: Path, root: Path, place: str | None = None) -> None:
    target = root / (place or str(source)).lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source.resolve(), target)
    target.chmod(0o755)


def build_root(root: Path, library_place: str) -> None:
    """A root with a shell, the workload, and the stand-in libraries in ``library_place``."""
    here = sim.library_dir()
    try:
        files = {_SHELL: "/bin/sh", here / "workload": "/bin/workload"}
        files |= {here / name: f"{library_place}/{name}" for name in _LIBRARIES}
        for file, place in files.items():
            _copy(file, root, place)
            for library in _needed(file) - files.keys():
                _copy(library, root)
        for directory in ("tmp", "log", "device", "proc", "sys", "dev"):
            (root / directory).mkdir(exist_ok=True)
    except OSError as error:
        raise CotenantError(f"cannot build an image in {root}: {error}") from error
