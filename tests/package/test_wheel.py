"""The wheel, where people install it: Debians without compiler, libbpf and checkout.

Minutes, and packages from Debian's mirror: ``make package-test``, apart from ``make test``.
"""

import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from cotenant.query.questions.promises import promise
from tests.package.conftest import build_wheel
from tests.package.root import REPOSITORY, Root, build_root
from tests.package.truth import collectives, operations, stem

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


def test_the_host_can_be_recorded(root: Root) -> None:
    assert "this host can be recorded" in root.must(COTENANT, "doctor")


def test_both_queries_of_the_demo_are_right(root: Root) -> None:
    said = root.must(COTENANT, "demo", "--for", "3s", "--store", "/var/tmp/demo")
    assert promise("kernels").rstrip() in said
    truth = root.place / "upper" / "var" / "tmp" / "demo.sim" / "truth"
    counted = Counter({(tenant(row), stem(row["kernel_name"])): row["launches"]
                       for row in asked(root, promise("kernels"))})  # fmt: skip
    assert counted == operations(truth)
    calls = {(tenant(row), row["op"]): row["calls"] for row in asked(root, promise("nccl"))}
    assert calls == collectives(truth)
    assert "train" in root.must(COTENANT, "top", "--store", "/var/tmp/demo")


def asked(root: Root, sql: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(
        root.must(COTENANT, "sql", "--store", "/var/tmp/demo", "--format", "json", sql)
    )
    return rows


def tenant(row: dict[str, object]) -> str:
    """Of what is ``/train.demo`` where tenants are cgroups."""
    return str(row["container_id"]).strip("/").removesuffix(".demo")


def test_it_records_and_serves(root: Root) -> None:
    recorder = root.start(COTENANT, "record", "--store", "/var/tmp/live", "--quiet")
    server = None
    try:
        assert recorder.stderr is not None
        assert recorder.stderr.readline().startswith("recording")
        server = root.start(COTENANT, "serve", "--as-root", "--store", "/var/tmp/live",
                            "--port", "0")  # fmt: skip
        assert server.stdout is not None
        address, token = re.findall(r"(http://\S+/)#token=(\S+)", server.stdout.readline())[0]
        with urllib.request.urlopen(address) as page:
            assert b"<title>cotenant</title>" in page.read()
        assert "cotenant_" in metrics(address, token)
    finally:
        for process in filter(None, (server, recorder)):
            end(process)


def metrics(address: str, token: str) -> str:
    """Once there is a store to tell of."""
    bearer = {"authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{address}metrics", headers=bearer)
    deadline = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(request) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            if error.code != 503 or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def end(process: "subprocess.Popen[str]") -> None:
    """Interrupted, it ends by itself: probes are gone with it."""
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)
    assert process.returncode in (0, 130, -signal.SIGINT), said


@pytest.mark.parametrize("tool", ["pipx", "uv"])
def test_other_installers_install_it(tool: str, packages: Path, tmp_path: Path) -> None:
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
    said = subprocess.run(
        [tmp_path / "bin" / "cotenant", "--version"], capture_output=True, text=True, check=True
    )
    assert said.stdout.startswith("cotenant ")
