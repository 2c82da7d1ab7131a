"""The package's generated modules, made from programs that differ from ours."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
OBJECTS = ROOT / "src/cotenant/_native/objects"


def generate(into: Path, *objects: Path) -> subprocess.CompletedProcess[str]:
    """As `make gen` does."""
    into.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, ROOT / "tools/gen_schema.py", into, *objects],
        capture_output=True,
        text=True,
        check=False,
    )


def copied(place: Path) -> Path:
    """Our BPF sources, to be changed."""
    return Path(shutil.copytree(ROOT / "bpf", place / "bpf", ignore=lambda *_: ["build"]))


def edit(path: Path, old: str, new: str) -> None:
    """Replace what occurs once."""
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def compiled(bpf: Path, source: str) -> Path:
    """The object of one of these sources."""
    machine = subprocess.run(["gcc", "-dumpmachine"], capture_output=True, text=True, check=True)
    target = bpf / f"{Path(source).name.removesuffix('.c')}.o"
    subprocess.run(
        ["clang-19", "-g", "-O2", "-target", "bpf", "-mcpu=v3", "-D__TARGET_ARCH_x86", f"-I{bpf}",
         f"-I/usr/include/{machine.stdout.strip()}", "-c", bpf / source, "-o", target],
        check=True,
    )  # fmt: skip
    return target
