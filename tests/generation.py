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
    target = bpf / f"{Path(source).name.removesuffix('.c')}.o"
    subprocess.run(
        ["make", "-s", "-C", bpf, "object", f"SOURCE={bpf / source}", f"TARGET={target}"],
        check=True,
    )
    return target
