"""The image from an empty Debian, run with what the DaemonSet gives it and no more.

Minutes, and packages from Debian's mirror: ``make image-test``, apart from ``make test``.
"""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cotenant.sim.place import Docker
from tests.daemonset import container, docker_options
from tests.kernel.conftest import ROOT, Recording, new_cgroup, truth
from tests.kernel.test_overload import finish, rows_of, start
from tests.package.root import build_root, made_root

LAUNCHES = 1009
MOST_BYTES = 250_000_000
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
        # Without a registry; with what the build needs in place, which saves minutes.
        import_root(
            made_root("bookworm", "bookworm,python3,python3-venv"), "debian:12", environment
        )
        import_root(build_root(), "cotenant-build:12", environment)
        built = subprocess.run(
            [ROOT / "deploy" / "container" / "build.sh", "--network=host",
             "--build-arg=BUILD_BASE=cotenant-build:12"],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert built.returncode == 0, built.stdout[-4000:] + built.stderr[-4000:]
        yield environment
    finally:
        daemon.close()


@pytest.fixture(scope="module")
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image as a file; ``COTENANT_IMAGE`` names one that is there."""
    if made := os.environ.get("COTENANT_IMAGE"):
        return Path(made)
    file = tmp_path_factory.mktemp("image") / "image.tar"
    save = ["docker", "save", f"--output={file}", container()["image"]]
    subprocess.run(save, env=request.getfixturevalue("docker"), check=True)
    return file


@pytest.fixture(scope="module")
def podman(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The image in podman, whose runc is that of Kubernetes; Docker's list of capabilities may
    be older than the kernel's."""
    directory = tmp_path_factory.mktemp("podman")
    command = ["podman", f"--root={directory}/root", f"--runroot={directory}/run",
               "--cgroup-manager=cgroupfs"]  # fmt: skip
    subprocess.run([*command, "load", f"--input={saved}"], check=True, capture_output=True)
    return command


def import_root(root: Path, name: str, environment: dict[str, str]) -> None:
    """A fresh Debian under the name that the Dockerfile has for it."""
    with subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE) as packed:
        subprocess.run(
            ["docker", "import", "-", name], stdin=packed.stdout, env=environment, check=True,
            capture_output=True,
        )  # fmt: skip


def test_the_image_is_small(saved: Path) -> None:
    """As it is pulled: compressed."""
    packed = subprocess.run(["gzip", "-c", saved], stdout=subprocess.PIPE, check=True).stdout
    print(f"the image: {len(packed)} bytes compressed, {saved.stat().st_size} unpacked")
    assert len(packed) <= MOST_BYTES


ASK = """
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", 7411, timeout=30)
headers = {"authorization": "Bearer " + sys.argv[2], "host": "localhost:7411"}
connection.request("GET", sys.argv[1], headers=headers)
answer = connection.getresponse()
text = answer.read().decode()
print(text) if answer.status == 200 else sys.exit(text)
"""
TOKEN = "a-word-for-this-test-alone"


def asked(serve: list[str], path: str) -> str:
    """What the page's container answers, over HTTP."""
    line = [*serve, "/opt/cotenant/bin/python", "-c", ASK, path, TOKEN]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _said(podman: list[str]) -> str:
    logs = subprocess.run([*podman, "logs", "serve"], capture_output=True, text=True, check=False)
    return logs.stdout + logs.stderr


def look(serve: list[str], verb: str) -> str:
    """What a command prints there."""
    line = [*serve, "cotenant", verb, "--store", "/var/lib/cotenant"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def looking(podman: list[str], store: Path) -> Iterator[list[str]]:
    """The pod's other container, as the DaemonSet runs it; how to run something in it."""
    words = [word.replace("$(POD_IP)", "10.0.0.1") for word in container("serve")["args"]]
    subprocess.run(
        [*podman, "run", "--detach", "--rm", "--name=serve", "--network=none", *LIMITS,
         *docker_options(store, "serve"), f"--env=COTENANT_TOKEN={TOKEN}",
         container("serve")["image"], *words],
        check=True, capture_output=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while "serving" not in (said := _said(podman)):
            assert time.monotonic() < deadline, said
            time.sleep(0.1)
        yield [*podman, "exec", "serve"]
    finally:
        subprocess.run([*podman, "rm", "-f", "serve"], capture_output=True, check=False)


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
            with looking(podman, store) as serve:
                assert "<title>cotenant</title>" in asked(serve, "/")
                assert "cotenant_launches_total" in asked(serve, "/metrics")
                assert "launch/s" in look(serve, "top")
                look([*podman, "exec", "recorder"], "explain")
                assert tenant.path.name in look(serve, "tenants")
                spoil = [*serve, "sh", "-c", "touch /var/lib/cotenant/x || touch /opt/cotenant/x"]
                assert subprocess.run(spoil, capture_output=True, check=False).returncode != 0
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
