"""The wheel, where people install it: Debians without compiler, libbpf and checkout.

Minutes, and packages from Debian's mirror: ``make package-test``, apart from ``make test``.
"""

import os
import re
import subprocess
import zipfile
from functools import partial
from pathlib import Path

import pytest

from tests.package.conftest import build_wheel
from tests.package.root import REPOSITORY, Root, build_root
from tests.package.use import demonstrate, record_and_serve

COTENANT = "/opt/empty/bin/cotenant"
MOST_BYTES = 5_000_000


def test_two_builds_are_equal(dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    assert build_wheel(tmp_path).read_bytes() == wheel.read_bytes()
    assert wheel.stat().st_size <= MOST_BYTES


def test_auditwheel_confirms_its_tag(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    assert re.fullmatch(r"cotenant-[\d.]+-cp311-abi3-manylinux_2_\d+_x86_64\.whl", wheel.name)
    tool = REPOSITORY / ".venv" / "bin" / "auditwheel"
    shown = subprocess.run([tool, "show", wheel], capture_output=True, text=True, check=True)
    platform = wheel.stem.rpartition("-")[2]
    assert f'platform tag: "{platform}"' in " ".join(shown.stdout.split())


def test_the_source_distribution_builds_the_same_wheel(dist: Path, tmp_path: Path) -> None:
    root = Root(build_root(), tmp_path / "root", dist)
    (source,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    backend = REPOSITORY / "build" / "backend"
    (root.place / "upper" / "backend").mkdir()
    for file in backend.glob("*.whl"):
        (root.place / "upper" / "backend" / file.name).write_bytes(file.read_bytes())
    root.must("python3", "-m", "venv", "/opt/empty")
    root.must("/opt/empty/bin/pip", "install", "--quiet", "--upgrade", "--no-index",
              "--find-links=/backend", "setuptools")  # fmt: skip
    root.must("/opt/empty/bin/pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index",
              "--wheel-dir=/out", f"/mnt/{source.name}")  # fmt: skip
    (built,) = (root.place / "upper" / "out").glob("*.whl")
    assert names(built) == names(wheel)


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as packed:
        return set(packed.namelist())


def test_it_needs_no_compiler_and_no_library(root: Root) -> None:
    done = root.run("sh", "-c", "command -v cc gcc clang clang-19 make; ls /usr/lib/*/libbpf*")
    assert done.stdout == ""
    assert "objects" in root.must(COTENANT, "--version")
    assert root.must("/opt/empty/bin/python", "-m", "cotenant", "--version") == root.must(
        COTENANT, "--version"
    )


def test_both_queries_of_the_demo_are_right(root: Root) -> None:
    truth = root.place / "upper" / "var" / "tmp" / "demo.sim" / "truth"
    demonstrate(partial(root.command, COTENANT), "/var/tmp/demo", truth)


def test_it_records_and_serves(root: Root) -> None:
    record_and_serve(partial(root.command, COTENANT), "/var/tmp/live")


@pytest.mark.parametrize("tool", ["pipx", "uv"])
def test_other_installers_install_what_works(tool: str, packages: Path, tmp_path: Path) -> None:
    (wheel,) = packages.glob("cotenant-*.whl")
    place = {**os.environ, "PIPX_HOME": f"{tmp_path}/home", "PIPX_BIN_DIR": f"{tmp_path}/bin",
             "UV_TOOL_DIR": f"{tmp_path}/home", "UV_TOOL_BIN_DIR": f"{tmp_path}/bin"}  # fmt: skip
    here = REPOSITORY / ".venv" / "bin"
    offline = f"--no-index --find-links={packages}"
    line = {
        "pipx": [here / "pipx", "install", f"--pip-args={offline}", f"{wheel}[look]"],
        "uv": [here / "uv", "tool", "install", *offline.split(), f"{wheel}[look]"],
    }[tool]
    done = subprocess.run(line, env=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    program = str(tmp_path / "bin" / "cotenant")
    demonstrate(lambda *words: [program, *words], f"{tmp_path}/demo", tmp_path / "demo.sim/truth")
    record_and_serve(lambda *words: [program, *words], f"{tmp_path}/live")
