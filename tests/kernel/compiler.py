"""Compiles what tests run: libraries of stub functions, and the clients that call them."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

CLIENTS = Path(__file__).parent / "clients"
FLAGS = ["-O1", "-Wall", "-I", str(CLIENTS)]


def build_library(path: Path, symbols: Iterable[str], *flags: str) -> Path:
    """A library of stubs: functions that do nothing but return."""
    path.parent.mkdir(exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text(
        '#include "stub_function.h"\n' + "".join(f"STUB({name})\n" for name in symbols)
    )
    compile_c(path, source, "-shared", "-fPIC", *flags)
    return path


def build_client(path: Path, name: str, *more: str) -> Path:
    """A client program out of ``clients/``."""
    return compile_c(path, CLIENTS / f"{name}.c", "-ldl", "-lpthread", *more)


def compile_c(path: Path, source: Path, *more: str) -> Path:
    """Compile one C file."""
    subprocess.run(["gcc", *FLAGS, "-o", str(path), str(source), *more], check=True)
    return path
