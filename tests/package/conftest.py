"""The wheel, built once, and Debians without a compiler that it is installed into."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kernel.conftest import no_probe_left, running_kernel
from tests.package.root import REPOSITORY, Root, made_root

__all__ = ["no_probe_left", "running_kernel"]

SUITES = ("bookworm", "trixie", "sid")
# The Pythons of these suites.
PYTHONS = ("3.11", "3.13", "3.14")


def built(tool: str, directory: Path, pattern: str) -> Path:
    """The only such file in a directory after a tool has built it there."""
    words = [REPOSITORY / "tools" / tool, directory]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = directory.glob(pattern)
    return file


def build_wheel(directory: Path) -> Path:
    """What `make wheel` builds."""
    return built("wheel.sh", directory, "*.whl")


def download(directory: Path) -> None:
    """Everything that is pinned, for each of these Pythons; what is there stays."""
    for python in PYTHONS:
        subprocess.run(
            [REPOSITORY / ".venv" / "bin" / "python", "-m", "pip", "download", "--quiet",
             "--only-binary=:all:", "--implementation=cp", f"--python-version={python}",
             "--no-deps", "--require-hashes", f"--dest={directory}",
             f"--requirement={REPOSITORY / 'requirements.txt'}"],
            check=True, capture_output=True,
        )  # fmt: skip


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel and the sdist, and nothing else; ``COTENANT_DIST`` names one."""
    if made := os.environ.get("COTENANT_DIST"):
        return Path(made)
    directory = tmp_path_factory.mktemp("dist")
    build_wheel(directory)
    return directory


@pytest.fixture(scope="session")
def package(dist: Path) -> Path:
    """What `make deb` builds of this wheel."""
    return built("deb.sh", dist, "*.deb")


@pytest.fixture(scope="session")
def packages(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel and all that it needs, for hosts without an index."""
    kept = REPOSITORY / "build" / "wheels"
    download(kept)
    directory = tmp_path_factory.mktemp("packages")
    for wheel in (*kept.glob("*.whl"), *dist.glob("*.whl")):
        shutil.copyfile(wheel, directory / wheel.name)
    return directory


@pytest.fixture(scope="session", params=SUITES)
def root(
    request: pytest.FixtureRequest, packages: Path, tmp_path_factory: pytest.TempPathFactory
) -> Root:
    """A Debian with Python, and the wheel installed in an empty environment of its own."""
    suite = request.param
    base = made_root(suite, f"{suite},python3,python3-venv")
    made = Root(base, tmp_path_factory.mktemp(suite), packages)
    made.must("python3", "-m", "venv", "/opt/empty")
    made.must("/opt/empty/bin/pip", "install", "--quiet", "--no-index", "--find-links=/mnt",
              "cotenant[look]")  # fmt: skip
    return made
