"""What deploy/ promises, as far as one machine can hold it to that."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from cotenant.confine.user import NAME, USER_ID
from cotenant.identity.runtimes import containerd, storage
from tests import daemonset
from tests.kernel.conftest import COTENANT, ROOT, Cgroup, Recording
from tests.kernel.test_overload import warm
from tests.lacking import lacking

UNIT = ROOT / "deploy" / "systemd" / "cotenant.service"
SERVE_UNIT = ROOT / "deploy" / "systemd" / "cotenant-serve.service"
SOCKET_UNIT = ROOT / "deploy" / "systemd" / "cotenant-serve.socket"
SYSUSERS = ROOT / "deploy" / "systemd" / "cotenant.sysusers"
README = ROOT / "deploy" / "README.md"
DOCKERFILE = ROOT / "deploy" / "container" / "Dockerfile"


def unit_capabilities() -> set[str]:
    (line,) = re.findall(r"^CapabilityBoundingSet=(.*)$", UNIT.read_text(), re.M)
    return {word.removeprefix("CAP_") for word in line.split()}


def test_the_capabilities_of_unit_and_daemonset_are_the_same() -> None:
    assert daemonset.capabilities() == unit_capabilities()
    assert "SYS_ADMIN" not in unit_capabilities()
    (told,) = re.findall(r"same capabilities and no more: (.*?)\.", README.read_text(), re.S)
    assert set(re.findall(r"`(\w+)`", told)) == unit_capabilities()


def test_it_records_with_the_capabilities_of_the_unit_and_tells_the_manager(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    heard.bind(str(tmp_path / "notify"))
    heard.settimeout(60)
    bounds = "-all," + ",".join(f"+{name.lower()}" for name in sorted(unit_capabilities()))
    confined = ["setpriv", "--bounding-set", bounds, "--no-new-privs"]
    errors = tmp_path / "errors"
    with errors.open("w") as stream:
        process = subprocess.Popen(
            [*confined, *COTENANT, "record", "--store", str(store), "--quiet"],
            stderr=stream,
            text=True,
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")},
        )
    recording = Recording(store, process, errors)
    try:
        assert heard.recv(4096).decode().split("\n")[0] == "READY=1", errors.read_text()
        warm(recording, cgroup)
        said = {heard.recv(4096).decode() for _ in range(4)}
        assert "WATCHDOG=1" in said
        process.send_signal(signal.SIGINT)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
        heard.close()
    assert process.returncode == 0, errors.read_text()


@pytest.mark.parametrize("unit", [UNIT, SERVE_UNIT, SOCKET_UNIT], ids=["record", "serve", "socket"])
def test_the_unit_is_one_that_systemd_takes(unit: Path, tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        lacking("tools", "no systemd-analyze; `make setup-tests` installs it")
    for one in (UNIT, SERVE_UNIT, SOCKET_UNIT):
        (tmp_path / one.name).write_text(one.read_text().replace("/usr/bin/cotenant", "/bin/true"))
    here = tmp_path / unit.name
    done = subprocess.run([tool, "verify", here], capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if unit.name in line]
    assert complaints == []


def test_the_page_is_served_by_nobody_who_is_root() -> None:
    lines = SERVE_UNIT.read_text().splitlines()
    assert {"User=cotenant-serve", "Group=cotenant", "CapabilityBoundingSet="} <= set(lines)
    assert "--as-root" not in SERVE_UNIT.read_text()
    assert re.search(r"^m cotenant-serve cotenant$", SYSUSERS.read_text(), re.M)


def test_the_recorder_has_the_same_number_wherever_its_user_is_made() -> None:
    assert re.search(rf"^u {NAME} {USER_ID} ", SYSUSERS.read_text(), re.M)
    assert f"groupadd --gid {USER_ID} {NAME}" in DOCKERFILE.read_text()
    assert f"useradd --uid {USER_ID} --gid {NAME} " in DOCKERFILE.read_text()
    assert f"user=({NAME} {USER_ID})" in (ROOT / "tools" / "setup.sh").read_text()


def test_the_daemonset_asks_for_no_more_than_it_needs(tmp_path: Path) -> None:
    context = daemonset.container()["securityContext"]
    assert context["privileged"] is context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert context["seccompProfile"] == context["appArmorProfile"] == {"type": "Unconfined"}
    assert daemonset.pod()["hostPID"] is True
    # What a resolver reads, where a runtime of Kubernetes keeps it.
    state = [str(place) for place in (containerd.STATE, containerd.K3S_STATE, storage.RUN)]
    assert daemonset.mounts() == {
        "/var/lib/cotenant": ("/var/lib/cotenant", True),
        "/sys/fs/cgroup": ("/sys/fs/cgroup", False),
        "/sys/kernel/btf": ("/sys/kernel/btf", False),
        **{place: (place, False) for place in state},
        "/tmp": (None, True),
    }
    assert "--privileged" not in daemonset.docker_options(tmp_path)


def test_the_image_records_as_the_daemonset_says() -> None:
    (command,) = re.findall(r"^CMD (.*)$", DOCKERFILE.read_text(), re.M)
    said = " ".join(daemonset.container()["args"]).replace("=", " ")
    assert " ".join(json.loads(command)) == said
