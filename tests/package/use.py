"""What somebody does who has installed it: `doctor`, `demo`, `record`, `serve`, `top`."""

import json
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from cotenant.query.questions.promises import promise
from tests.package.root import CLEAN
from tests.package.truth import collectives, operations, stem

# ``line("doctor")``: the command line of `cotenant doctor` there.
Line = Callable[..., list[str]]
_NAMES = "select container_id, tenant from containers where tenant is not null"


def must(words: list[str]) -> str:
    """Run; what it printed. Fails if it does."""
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, timeout=600, env=CLEAN
    )
    assert done.returncode == 0, f"{words}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def demonstrate(line: Line, store: str, truth: Path) -> None:
    """Both queries of the README say what the tenants wrote down themselves."""
    assert "this host can be recorded" in must(line("doctor"))
    said = must(line("demo", "--for", "3s", "--store", store))
    assert promise("kernels").rstrip() in said
    check(line, store, truth)


def check(line: Line, store: str, truth: Path) -> None:
    """The answers of a demo that is over, against what its tenants wrote down."""
    named = {row["container_id"]: row["tenant"] for row in _asked(line, store, _NAMES)}

    def tenant(row: dict[str, object]) -> str:
        """Of a container, or of what is ``/train.demo`` where tenants are cgroups."""
        name = named.get(row["container_id"]) or row["container_id"]
        return str(name).strip("/").removesuffix(".demo")

    counted = Counter({(tenant(row), stem(row["kernel_name"])): row["launches"]
                       for row in _asked(line, store, promise("kernels"))})  # fmt: skip
    assert counted == operations(truth)
    asked = _asked(line, store, promise("nccl"))
    assert {(tenant(row), row["op"]): row["calls"] for row in asked} == collectives(truth)
    assert "train" in must(line("top", "--store", store))


def _asked(line: Line, store: str, sql: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = json.loads(
        must(line("sql", "--store", store, "--format", "json", sql))
    )
    return rows


def record_and_serve(line: Line, store: str) -> None:
    """A page and numbers, of what is recorded right now."""
    recorder = _start(line("record", "--store", store, "--quiet"))
    server = None
    try:
        assert recorder.stderr is not None
        assert recorder.stderr.readline().startswith("recording")
        server = _start(line("serve", "--as-root", "--store", store, "--port", "0"))
        assert server.stdout is not None
        address, token = re.findall(r"(http://\S+/)#token=(\S+)", server.stdout.readline())[0]
        with urllib.request.urlopen(address) as page:
            assert b"<title>cotenant</title>" in page.read()
        assert "cotenant_" in _metrics(address, token)
    finally:
        for process in filter(None, (server, recorder)):
            _end(process)


def _start(words: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=CLEAN
    )


def _metrics(address: str, token: str) -> str:
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


def _end(process: "subprocess.Popen[str]") -> None:
    """Interrupted, it ends by itself: probes are gone with it."""
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)
    assert process.returncode in (0, 130, -signal.SIGINT), said
