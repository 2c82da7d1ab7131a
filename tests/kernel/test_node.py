"""A recording under a name of its node, and the same name on another machine."""

import json
import os
import subprocess
from pathlib import Path

from cotenant.query.engine.session import Session
from tests.kernel.conftest import COTENANT
from tests.kernel.kept_clock import kept_clock

CLOCK_ERROR_US = 1_234
NODE = "rack-3-gpu-07"
ONE, OTHER = "1" * 32, "2" * 32
# A mount namespace in which the host is another machine.
ON = """
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/host/etc
echo {machine} >/run/host/etc/machine-id
exec {command}
"""


def record(machine: str, store: Path, *options: str) -> str:
    """What a recording of a second says on its way."""
    words = [*COTENANT, "record", "--for", "1s", "--quiet", "--store", str(store), *options]
    script = ON.format(machine=machine, command=" ".join(map(str, words)))
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "NODE_NAME": NODE},
        check=False,
    )
    assert (done.returncode == 0) == done.stderr.startswith("recording"), done.stderr
    return done.stderr


def test_a_node_is_recorded_by_its_name_and_refused_to_another_machine(store: Path) -> None:
    with kept_clock(CLOCK_ERROR_US):
        record(ONE, store)
    manifest = store / "manifest" / f"{NODE}.json"
    machine = json.loads(manifest.read_bytes())["machine"]
    assert ONE not in manifest.read_text()

    said = record(OTHER, store)
    assert said.count("\n") == 1
    assert f"has a node {NODE} that was recorded on another machine; name this one" in said
    assert json.loads(manifest.read_bytes())["machine"] == machine

    record(OTHER, store, "--adopt")
    assert json.loads(manifest.read_bytes())["machine"] != machine
    with Session(store) as session:
        nodes = session.ask("select node from sessions").rows()
        errors = "select clock_error_ns as ns from sessions order by started_ns"
        first, _ = session.ask(errors).rows()
        unsure = session.ask("select * from containers where scope is null").rows()
    assert nodes == [{"node": NODE}] * 2
    assert unsure == []
    # The kernel lets it grow by 500 us each second.
    assert first["ns"] >= CLOCK_ERROR_US * 1000
    assert (first["ns"] // 1000 - CLOCK_ERROR_US) % 500 == 0
