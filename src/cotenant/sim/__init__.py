"""The stand-in GPU: its libraries, and the workloads that run on them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cotenant.errors import CotenantError

STORIES = ("mix", "launch", "train", "serve", "noisy")


def library_dir() -> Path:
    """The directory of the stand-in libraries; ``COTENANT_SIM_DIR`` names another."""
    chosen = os.environ.get("COTENANT_SIM_DIR")
    here = Path(chosen) if chosen else _default_dir()
    if not (here / "libcuda.so.1").exists():
        raise CotenantError(f"no stand-in libraries in {here}; run `make -C sim`")
    return here


def _default_dir() -> Path:
    """In the package, as a wheel has them, or where a checkout builds them."""
    packaged = Path(__file__).parent / "libraries"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "sim" / "build"


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment, with the stand-in libraries first on the loader's path."""
    merged = {**os.environ, **(extra or {})}
    paths = [str(library_dir()), merged.get("LD_LIBRARY_PATH", "")]
    merged["LD_LIBRARY_PATH"] = ":".join(p for p in paths if p)
    return merged


def command(workload: str, arguments: Sequence[str] = ()) -> list[str]:
    """The command line of a story (``train``) or of a program of one's own (``./a.out``)."""
    if workload in STORIES:
        return [str(library_dir() / "workload"), workload, *arguments]
    return [workload, *arguments]
