"""What deploy/ promises, as far as one machine can hold it to that."""

import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.kernel.conftest import COTENANT, ROOT, Cgroup, Recording
from tests.kernel.test_overload import warm

UNIT = ROOT / "deploy" / "systemd" / "cotenant.service"
DAEMONSET = ROOT / "deploy" / "kubernetes" / "daemonset.yaml"


def unit_capabilities() -> set[str]:
    (line,) = re.findall(r"^CapabilityBoundingSet=(.*)$", UNIT.read_text(), re.M)
    return {word.removeprefix("CAP_") for word in line.split()}


def test_the_capabilities_of_unit_and_daemonset_are_the_same() -> None:
    (added,) = re.findall(r"add: \[(.*)\]", DAEMONSET.read_text())
    assert {word.strip() for word in added.split(",")} == unit_capabilities()
    assert "SYS_ADMIN" not in unit_capabilities()


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


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("no systemd-analyze")
    here = tmp_path / "cotenant.service"
    here.write_text(UNIT.read_text().replace("/usr/bin/cotenant", "/bin/true"))
    done = subprocess.run([tool, "verify", here], capture_output=True, text=True, check=False)
    complaints = [line for line in done.stderr.splitlines() if "cotenant.service" in line]
    assert complaints == []


def test_the_daemonset_asks_for_no_more_than_it_needs() -> None:
    lines = [line.split("#")[0].strip() for line in DAEMONSET.read_text().splitlines()]
    assert "privileged: false" in lines
    assert "readOnlyRootFilesystem: true" in lines
    assert "drop: [ALL]" in lines
    (added,) = [line for line in lines if line.startswith("add: [")]
    assert set(added.removeprefix("add: [").rstrip("]").split(", ")) == {
        "BPF", "PERFMON", "SYS_PTRACE", "DAC_READ_SEARCH", "CHECKPOINT_RESTORE", "SETPCAP",
    }  # fmt: skip
