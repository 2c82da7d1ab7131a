"""The image from an empty Debian, run with what the DaemonSet gives it and no more.

Minutes, and packages from Debian's mirror: ``make image-test``, apart from ``make test``.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant.sim.place import Docker
from tests.daemonset import container, docker_options
from tests.kernel.conftest import ROOT, Recording, new_cgroup, truth
from tests.kernel.test_overload import finish, rows_of, start

LAUNCHES = 1009
# podman asks for more than it may give without CAP_SYS_RESOURCE.
LIMITS = ("--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096")


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A daemon of our own that has the image, built on a base made without a registry."""
    directory = tmp_path_factory.mktemp("docker")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", f"unix://{directory}/none.sock")
        daemon = Docker(directory)
        environment = {**os.environ, **daemon.environment, "DOCKER_BUILDKIT": "0"}
    try:
        import_base(directory / "base", environment)
        built = subprocess.run(
            [ROOT / "deploy" / "container" / "build.sh", "--network=host"],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert built.returncode == 0, built.stdout[-4000:] + built.stderr[-4000:]
        yield environment
    finally:
        daemon.close()


@pytest.fixture(scope="module")
def podman(docker: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The image in podman, whose runc is that of Kubernetes; Docker's list of capabilities may
    be older than the kernel's."""
    directory = tmp_path_factory.mktemp("podman")
    command = ["podman", f"--root={directory}/root", f"--runroot={directory}/run",
               "--cgroup-manager=cgroupfs"]  # fmt: skip
    save = ["docker", "save", container()["image"]]
    with subprocess.Popen(save, stdout=subprocess.PIPE, env=docker) as saved:
        subprocess.run([*command, "load"], stdin=saved.stdout, check=True, capture_output=True)
    return command


def import_base(root: Path, environment: dict[str, str]) -> None:
    """A fresh Debian under the name that the Dockerfile has for its base."""
    made = os.environ.get("COTENANT_BASE")
    if made is None:
        tool = shutil.which("debootstrap", path=f"{os.environ['PATH']}:/usr/sbin")
        assert tool is not None
        subprocess.run([tool, "--variant=minbase", "bookworm", root], check=True)
    with subprocess.Popen(["tar", "-C", made or root, "-c", "."], stdout=subprocess.PIPE) as packed:
        subprocess.run(
            ["docker", "import", "-", "debian:12"], stdin=packed.stdout, env=environment, check=True
        )


def test_the_image_records_with_what_the_daemonset_gives_it(
    podman: list[str], tmp_path: Path
) -> None:
    store, errors, log = tmp_path / "store", tmp_path / "errors", tmp_path / "log"
    store.mkdir()
    image = container()["image"]
    with errors.open("w") as stream:
        process = subprocess.Popen(
            [*podman, "run", "--rm", "--name=recorder", "--network=none", *LIMITS,
             *docker_options(store), image, *container()["args"]],
            stderr=stream, text=True,
        )  # fmt: skip
    recording = Recording(store, process, errors)
    try:
        deadline = time.monotonic() + 60
        while "recording" not in errors.read_text():
            assert process.poll() is None, errors.read_text()
            assert time.monotonic() < deadline, errors.read_text()
            time.sleep(0.1)
        with new_cgroup() as before, new_cgroup() as tenant:
            for _ in range(20):
                finish(start(before, "--steps", "3"))
                if recording.sql("select 1 as seen from cuda_events where op = 'launch' limit 1"):
                    break
            finish(start(tenant, "--steps", str(LAUNCHES), log=log))
            probe = container()["readinessProbe"]["exec"]["command"]
            ready = [*podman, "exec", "recorder", *probe]
            done = subprocess.run(ready, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            subprocess.run([*podman, "stop", "recorder"], check=True, capture_output=True)
            assert process.wait(90) == 0, errors.read_text()
            launches = sum(call["op"] == "launch" for call in truth(log))
            assert launches == LAUNCHES
            assert rows_of(recording, tenant) == {"rows": LAUNCHES, "weight": LAUNCHES}
    finally:
        subprocess.run([*podman, "rm", "-f", "recorder"], capture_output=True, check=False)
        process.kill()
        process.wait()
    (row,) = recording.sql("select notes from sessions")
    assert "imbalance" not in json.loads(row["notes"])
