"""Bytes through sockets, compared with what the programs say they sent and received."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kernel.conftest import Cgroup, Recording, new_cgroup, record
from tests.kernel.network import wire
from tests.kernel.tenants import finish, python

MESSAGES = 211
SIZE = 997

# Both ends of one connection in one process, so that it alone knows what it moved.
PAIR = """
import socket, sys, tempfile
family, kind, address = sys.argv[1:4]
messages, size = int(sys.argv[4]), int(sys.argv[5])
family, kind = getattr(socket, family), getattr(socket, kind)
where = address if family == socket.AF_UNIX else (address, 0)
receiver = socket.socket(family, kind)
receiver.bind(where)
sender = socket.socket(family, kind)
if kind == socket.SOCK_STREAM:
    receiver.listen()
    sender.connect(receiver.getsockname())
    receiver, _ = receiver.accept()
else:
    sender.connect(receiver.getsockname())
for _ in range(messages):
    sender.sendall(bytes(size))
    receiver.recv(size, socket.MSG_PEEK)
    got = 0
    while got < size:
        got += len(receiver.recv(size - got))
"""


def moved(recording: Recording, cgroup: Cgroup) -> dict[tuple[str, str], int]:
    """Bytes by operation and family."""
    rows = recording.sql(
        "select op, family, sum(bytes)::bigint as bytes from net_events "
        f"join containers using (cgroup_id) where cgroup_path = '/{cgroup.name}' "
        "and bytes is not null group by all"
    )
    return {(row["op"], row["family"]): row["bytes"] for row in rows}


PAIRS = [
    ("AF_INET", "SOCK_STREAM", "127.0.0.1", "tcp"),
    ("AF_INET6", "SOCK_STREAM", "::1", "tcp6"),
    ("AF_INET", "SOCK_DGRAM", "127.0.0.1", "udp"),
    ("AF_INET6", "SOCK_DGRAM", "::1", "udp6"),
    ("AF_UNIX", "SOCK_STREAM", "stream", "unix"),
    ("AF_UNIX", "SOCK_DGRAM", "datagrams", "unix"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pairs")


@pytest.fixture(scope="module")
def pairs(place: Path) -> tuple[Recording, dict[str, Cgroup]]:
    """Each pair in a cgroup of its own, by its first two words, in one recording."""
    cgroups: dict[str, Cgroup] = {}
    with (
        ExitStack() as stack,
        record(place / "store", "--events", "net", "--net-rows", "all") as recording,
    ):
        for family, kind, address, _ in PAIRS:
            cgroup = cgroups[family + kind] = stack.enter_context(new_cgroup())
            where = address_of(place, family, address)
            finish(python(cgroup, PAIR, family, kind, where, MESSAGES, SIZE))
        recording.stop()
    return recording, cgroups


def address_of(place: Path, family: str, address: str) -> str:
    return str(place / address) if family == "AF_UNIX" else address


@pytest.mark.parametrize(("family", "kind", "address", "name"), PAIRS)
def test_sent_and_received_bytes_are_exact_and_peeked_ones_count_once(
    family: str,
    kind: str,
    address: str,
    name: str,
    place: Path,
    pairs: tuple[Recording, dict[str, Cgroup]],
) -> None:
    recording, cgroup = pairs[0], pairs[1][family + kind]
    address = address_of(place, family, address)
    expected = MESSAGES * SIZE
    assert moved(recording, cgroup) == {("send", name): expected, ("recv", name): expected}
    total = recording.sql(
        "select function, sum(count)::int as n, sum(bytes)::bigint as bytes from totals "
        f"join containers using (cgroup_id) where cgroup_path = '/{cgroup.name}' "
        "and family = 'net' and function = 'send' group by all"
    )
    assert total == [{"function": "send", "n": MESSAGES, "bytes": expected}]
    ends = recording.sql(
        "select distinct remote from net_events join containers using (cgroup_id) "
        f"where cgroup_path = '/{cgroup.name}' and op = 'send'"
    )
    assert len(ends) == 1
    # A long path is cut.
    host = {"AF_INET6": "[::1]:", "AF_UNIX": address[:48]}.get(family, f"{address}:")
    assert ends[0]["remote"].startswith(host)


def test_bytes_are_those_of_iperf3s_own_report(cgroups: Callable[[], Cgroup], store: Path) -> None:
    a, b = cgroups(), cgroups()
    with wire() as (near, far), record(store, "--events", "net,tcp") as recording:
        server = far.popen(b, "iperf3", "--server", "--one-off", "--json", "--forceflush")
        for _ in range(200):
            if ":5201 " in far.run("ss", "-ltnH").stdout.replace("\t", " "):
                break
            time.sleep(0.05)
        client = near.popen(a, "iperf3", "--client", far.address, "--bytes", "23M", "--json")
        sent = json.loads(finish(client))["end"]["sum_sent"]["bytes"]
        received = json.loads(finish(server))["end"]["sum_received"]["bytes"]
    # Besides the stream, iperf3 has a connection for control.
    rows = recording.sql(
        "select cgroup_path, op, max(bytes)::bigint as bytes from (select cgroup_path, op, "
        "local, remote, sum(bytes) as bytes from net_events join containers using (cgroup_id) "
        f"where family like 'tcp%' and op in ('send', 'recv') and cgroup_path in "
        f"('/{a.name}', '/{b.name}') group by all) group by all"
    )
    found = {(row["cgroup_path"], row["op"]): row["bytes"] for row in rows}
    # A cookie of 37 bytes opens the stream.
    assert found[f"/{a.name}", "send"] == sent + 37
    assert found[f"/{b.name}", "recv"] == received + 37


def test_an_interface_that_goes_away_does_not_end_the_recording(
    cgroup: Cgroup, store: Path
) -> None:
    with record(store, "--events", "net,tcp") as recording:
        with wire() as (near, far):
            near.run("ip", "link", "delete", "wire")
            subprocess.run(
                ["ip", "netns", "exec", far.namespace, "ping", "-c1", "-W1", near.address],
                check=False, capture_output=True,
            )  # fmt: skip
        finish(python(cgroup, PAIR, "AF_INET", "SOCK_STREAM", "127.0.0.1", 3, SIZE))
    assert moved(recording, cgroup)["send", "tcp"] == 3 * SIZE


def test_every_event_is_accounted_for(cgroup: Cgroup, store: Path) -> None:
    with record(store, "--events", "net,tcp,io") as recording:
        finish(python(cgroup, PAIR, "AF_INET", "SOCK_STREAM", "127.0.0.1", MESSAGES, SIZE))
    rows = recording.sql(
        "select family, sum(seen - stored - shed - lost)::bigint as off from losses group by 1"
    )
    assert {row["off"] for row in rows} == {0}
    assert {row["family"] for row in rows} >= {"net", "tcp"}


def test_a_flood_of_messages_is_shed_before_it_costs_gpu_calls(cgroup: Cgroup, store: Path) -> None:
    """A ring that is half full takes no more of these; what is left out is counted."""
    with record(store, "--events", "net", "--ring-bytes", "4096") as recording:
        finish(python(cgroup, PAIR, "AF_INET", "SOCK_DGRAM", "127.0.0.1", 4999, 7))
    rows = recording.sql(
        "select sum(seen)::int as seen, sum(stored)::int as stored, sum(shed)::int as shed, "
        "sum(lost)::int as lost from losses join containers using (cgroup_id) "
        f"where family = 'net' and cgroup_path = '/{cgroup.name}'"
    )
    assert rows[0]["seen"] == 2 * 4999
    assert rows[0]["shed"] > 0
    assert rows[0]["lost"] == 0
    assert rows[0]["stored"] == rows[0]["seen"] - rows[0]["shed"]
    counted = recording.sql(
        "select function, sum(count)::int as n, sum(bytes)::int as bytes from totals "
        f"join containers using (cgroup_id) where family = 'net' and "
        f"cgroup_path = '/{cgroup.name}' group by 1 order by 1"
    )
    assert counted == [
        {"function": "recv", "n": 4999, "bytes": 4999 * 7},
        {"function": "send", "n": 4999, "bytes": 4999 * 7},
    ]


def test_a_hook_that_the_kernel_lacks_costs_only_what_it_tells(store: Path) -> None:
    """A broken program is left out with one line, and the family goes on without it."""
    script = """
import sys
from cotenant.probes import hooks, kernel
hooks.hooks_of = lambda family: (*kernel.hooks_of(family), kernel.Hook(family, "no_such", "x", "x"))
from cotenant.probes.attach import Method
from cotenant.probes.perf import Ticks
from cotenant.probes.programs import Programs, Sizes
programs = Programs(Method.PAIR)
placed = hooks.place(programs, ["tcp"], Sizes(4096, 4096), {}, Ticks())
print(len(placed.links), placed.refused)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    links, _, refused = done.stdout.partition(" ")
    assert links == "6"
    assert refused.startswith("{'no_such': 'not recorded: x (")
