"""The Debian package under a real systemd: its units start, serve, and go with it."""

import subprocess
from pathlib import Path

import pytest

from tests.package.root import made_root

# Each line of its output is one thing that was seen. This systemd has a PID namespace for itself,
# and a probe sees other numbers: no recorder finds its own first call. Where somebody is excluded,
# that may be the recorder itself, and it goes on.
SCRIPT = """#!/bin/sh
mkdir /etc/cotenant
echo 'exclude = ["nobody.service"]' >/etc/cotenant/config.toml
dpkg --install /mnt/*.deb
for second in $(seq 60); do
  cotenant health >/dev/null 2>&1 && break
  sleep 1
done
echo "recorder: $(systemctl is-active cotenant.service)"
echo "socket: $(systemctl is-active cotenant-serve.socket)"
echo "health: $(cotenant health >/dev/null && echo good)"
echo "capabilities: $(grep CapEff /proc/$(systemctl show -P MainPID cotenant.service)/status)"
echo "page: $(python3 -c "$ASK" 2>&1 | tail -n 1)"
echo "server: $(systemctl is-active cotenant-serve.service)"
journalctl --no-pager --lines=40 --unit=cotenant.service --unit=cotenant-serve.service
systemctl disable --now --quiet cotenant.service
dpkg --install /mnt/*.deb
echo "disabled: $(systemctl is-active cotenant.service)"
echo "not disabled: $(systemctl is-active cotenant-serve.socket)"
dpkg --purge cotenant
echo "afterwards: $(systemctl is-active cotenant.service cotenant-serve.socket | sort -u)"
echo "left: $(find / -xdev -name '*cotenant*' -not -path '/mnt/*' | tr '\\n' ' ')"
"""
ASK = """
import http.client, socket
one = http.client.HTTPConnection("localhost")
one.sock = socket.socket(socket.AF_UNIX)
one.sock.settimeout(60)
one.sock.connect("/run/cotenant-serve/page.sock")
token = open("/etc/cotenant/token").read().strip()
one.request("GET", "/api/status", headers={"authorization": "Bearer " + token})
print(one.getresponse().status)
"""


@pytest.fixture(scope="module")
def said(package: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the script saw, from its first line to its last."""
    base = made_root("systemd", "bookworm,python3,python3-venv,systemd,systemd-sysv,dbus")
    place = tmp_path_factory.mktemp("systemd")
    script = place / "script"
    script.write_text(SCRIPT.replace("$ASK", ASK.replace('"', '\\"')))
    boot = Path(__file__).with_name("boot.sh")
    booted = subprocess.run(
        [boot, base, place, package.parent, script],
        capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    output = place / "upper" / "root" / "said"
    assert output.exists(), f"systemd did not boot: {booted.stderr[-2000:]}"
    return output.read_text()


def told(said: str, what: str) -> str:
    (found,) = [line for line in said.splitlines() if line.startswith(f"{what}: ")]
    return found.removeprefix(f"{what}: ").strip()


def test_it_records_as_soon_as_it_is_installed(said: str) -> None:
    assert told(said, "recorder") == "active", said
    assert told(said, "health") == "good", said
    assert told(said, "capabilities").split()[-1] == "0" * 16


def test_the_page_is_served_when_somebody_connects(said: str) -> None:
    assert told(said, "socket") == "active", said
    assert told(said, "page") == "200", said
    assert told(said, "server") == "active", said


def test_installed_anew_it_starts_nothing_that_was_disabled(said: str) -> None:
    assert told(said, "disabled") == "inactive", said
    assert told(said, "not disabled") == "active", said


def test_it_is_removed_cleanly(said: str) -> None:
    assert told(said, "afterwards") == "inactive", said
    assert told(said, "left") == "", said
