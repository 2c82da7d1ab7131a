"""`cotenant serve` behind a reverse proxy, and on a socket that systemd passed."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant.errors import UsageError
from cotenant.views.web.root_path import root_path
from tests.serving import Served, serving, three_tenants

# What a proxy sends on: its own name, and the page's as the browser sees it.
PROXY = {"Host": "example.org", "Origin": "https://example.org", "Sec-Fetch-Site": "same-origin"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return three_tenants(tmp_path_factory.mktemp("proxied") / "store")


@pytest.fixture(scope="module")
def served(store: Path) -> Iterator[Served]:
    with serving(store, "--root-path", "/team/gpu/", "--name", "example.org") as one:
        yield one


@pytest.mark.parametrize("below", ["", "/team/gpu"], ids=["taken off", "passed on"])
@pytest.mark.parametrize("path", ["/", "/app.js", "/api/status", "/metrics"])
def test_the_proxys_path_may_be_taken_off_or_passed_on(
    served: Served, path: str, below: str
) -> None:
    assert served.request(below + path, headers=PROXY).status == 200


def test_sql_is_answered_over_tls(served: Served) -> None:
    for host in ("example.org", "example.org:8443", f"127.0.0.1:{served.port}"):
        reply = served.request(
            "/team/gpu/api/sql", method="POST", body=b'{"sql": "SELECT 1 AS one"}',
            headers=PROXY | {"Host": host, "Content-Type": "application/json"},
        )  # fmt: skip
        assert reply.status == 200, reply.error


def test_without_a_slash_one_is_led_to_the_page(served: Served) -> None:
    reply = served.request("/team/gpu", headers=PROXY)
    assert (reply.status, reply.headers["location"]) == (308, "/team/gpu/")


def test_it_is_guarded_as_ever(served: Served) -> None:
    assert served.request("/team/gpu/api/status", headers=PROXY, token=None).status == 401
    assert served.request("/team/gpu/metrics", headers=PROXY, token=None).status == 401
    for wrong in (
        {"Host": "evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "ftp://example.org"},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        assert served.request("/team/gpu/api/status", headers=PROXY | wrong).status == 403, wrong
    assert served.request("/team/gpuapi/status", headers=PROXY).status == 404
    assert served.request("/team/gpu/team/gpu/metrics", headers=PROXY).status == 404


def test_without_a_proxy_other_names_and_tls_are_refused(store: Path) -> None:
    with serving(store, "--name", "example.org") as alone:
        assert alone.request("/", headers=PROXY).status == 403
        assert (
            alone.request("/", headers={"Origin": f"https://127.0.0.1:{alone.port}"}).status == 403
        )


@pytest.mark.parametrize("wrong", ["gpu", "/a b", "/../x", "//evil.example", "/a\r\nb", "/ü"])
def test_what_is_no_path_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError):
        root_path(wrong)


def test_the_page_has_no_absolute_link() -> None:
    from importlib import resources

    for file in (resources.files("cotenant.views.web") / "static").iterdir():
        text = file.read_text()
        assert re.findall(r"""(?:from|src=|href=|fetch\(|send\()\s*["'`]/""", text) == [], file.name


PASSED = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ["LISTEN_PID"], os.environ["LISTEN_FDS"] = str(os.getpid()), "1"
os.execv(sys.executable, [sys.executable, "-m", "cotenant", "serve", *sys.argv[2:]])
"""


def test_a_socket_that_systemd_opened_is_served(store: Path, tmp_path: Path) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "page.sock"))
    listening.listen()
    os.set_inheritable(listening.fileno(), True)
    root = ["--as-root"] if os.geteuid() == 0 else []
    process = subprocess.Popen(
        [sys.executable, "-c", PASSED, str(listening.fileno()), "--store", str(store), *root],
        close_fds=False, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        listening.close()
        assert process.stdout is not None
        line = process.stdout.readline()
        token = line.strip().rpartition("#token=")[2]
        one = Served(0, token, process, line, tmp_path / "page.sock")
        assert one.request("/api/status").status == 200
    finally:
        process.terminate()
        process.communicate(timeout=20)
    assert (tmp_path / "page.sock").exists()  # It is systemd's.
