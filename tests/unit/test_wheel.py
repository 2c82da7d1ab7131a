"""A wheel from a checkout has everything, or there is none and one line says why."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cotenant import sim
from cotenant._native import OBJECTS

ROOT = Path(__file__).parents[2]
BUILD = "import sys, setuptools.build_meta as backend; backend.build_wheel(sys.argv[1])"


def build(tree: Path, out: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", BUILD, str(out)], cwd=tree, capture_output=True, text=True,
        check=False, env={**os.environ, **environment},
    )  # fmt: skip


def tracked() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a clone has."""
    place = tmp_path_factory.mktemp("clone")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file() and not name.startswith(("docs/", "tests/")):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)
    return place


def test_without_a_compiler_there_is_no_wheel_and_one_line_says_why(tree: Path, tmp_path: Path):
    done = build(tree, tmp_path, PATH="/nonexistent")
    assert done.returncode == 1
    (line,) = (done.stdout + done.stderr).splitlines()
    assert line.startswith("cotenant: no wheel can be built here: make, cc")
    assert "clang-19" in line
    assert list(tmp_path.glob("*.whl")) == []


def test_without_a_header_it_is_named(tree: Path, tmp_path: Path):
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "cc").write_text('#!/bin/sh\ncase "$*" in *libbpf*) exit 1;; esac; exec gcc "$@"\n')
    (fake / "cc").chmod(0o755)
    done = build(tree, tmp_path, PATH=f"{fake}:{os.environ['PATH']}")
    (line,) = (done.stdout + done.stderr).splitlines()
    assert "bpf/libbpf.h not found; on Debian, apt-get install" in line


def test_the_wheel_has_all_that_a_recording_and_the_demo_need(tmp_path: Path):
    # In the checkout itself, where all is built: a compiler would take a minute.
    done = build(ROOT, tmp_path)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-cp311-abi3-linux_x86_64.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        modes = {info.filename: info.external_attr >> 16 & 0o777 for info in packed.infolist()}
    ours = {name.removeprefix("src/") for name in tracked() if name.startswith("src/cotenant/")}
    assert ours <= names
    assert {f"cotenant/_native/objects/{file.name}" for file in OBJECTS.glob("*.o")} <= names
    native = {"_drain.abi3.so", "libbpf.so.1", "libelf.so.1", "libz.so.1", "licenses/LGPL-3"}
    assert {f"cotenant/_native/{name}" for name in native} <= names
    libraries = {file.name for file in sim.library_dir().glob("lib*.so.*")} | {"workload", "client"}
    assert {f"cotenant/sim/libraries/{name}" for name in libraries} <= names
    assert modes["cotenant/sim/libraries/workload"] == 0o755
