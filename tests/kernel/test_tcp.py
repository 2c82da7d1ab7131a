"""TCP on a wire that loses segments, compared with the counters of the namespace's own stack."""

import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernel.conftest import Cgroup, Recording, record
from tests.kernel.current_task import ESTABLISHED, RETRANSMIT, count_by_current_task, hidden_by_init
from tests.kernel.network import End, wire
from tests.kernel.tenants import finish
from tests.kernel.test_io import burning

BYTES = 4_999_999
PORT = 5201
CONNECTIONS = 211

SINK = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
server = socket.create_server((sys.argv[1], int(sys.argv[2])), family=family, backlog=4096)
print("ready", flush=True)
for _ in range(int(sys.argv[3])):
    connection, _ = server.accept()
    while connection.recv(1 << 16):
        pass
    connection.close()
"""

SEND = """
import socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
connection.sendall(bytes(int(sys.argv[3])))
connection.shutdown(socket.SHUT_WR)
connection.recv(1)
"""

# Leaves bytes in the socket and ends: the kernel goes on sending for nobody.
LEAVE = """
import os, socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print("connected", flush=True)
sys.stdin.readline()
connection.send(bytes(1000))
"""

# Makes a connection and hands it to whoever is at the other end of fd 0.
GIVE = """
import socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
with socket.socket(fileno=int(sys.argv[3])) as way:
    socket.send_fds(way, [b"x"], [connection.fileno()])
    way.recv(1)
"""

TAKE = """
import socket, sys
with socket.socket(fileno=int(sys.argv[1])) as way:
    _, fds, _, _ = socket.recv_fds(way, 1, 1)
    connection = socket.socket(fileno=fds[0])
    connection.sendall(bytes(int(sys.argv[2])))
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)
    way.send(b"x")
"""


KNOCK = """
import socket
for _ in range({n}):
    socket.create_connection(("{address}", {port})).close()
"""


def sink(end: End, cgroup: Cgroup, address: str, connections: int = 1):
    """A server that reads until the end, already listening."""
    server = end.popen(cgroup, sys.executable, "-c", SINK, address, PORT, connections)
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    return server


def by_path(recording: Recording, condition: str) -> dict[str | None, int]:
    """How many TCP events each cgroup has."""
    rows = recording.sql(
        "select coalesce(cgroup_path, tenant) as path, count(*) as n "
        f"from tcp_events join containers using (cgroup_id) where {condition} group by 1"
    )
    return {row["path"]: row["n"] for row in rows}


@pytest.mark.parametrize("version", [4, 6])
def test_retransmits_belong_to_the_tenant_whose_socket_it_is(
    version: int, cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    a, b, other = cgroups(), cgroups(), cgroups()
    with (
        wire() as (near, far),
        hidden_by_init(tmp_path, a) as hidden,
        record(store, "--events", "tcp") as recording,
    ):
        address = far.address if version == 4 else far.address6
        server = sink(far, other, address)
        far.lose(3)
        with burning(b), count_by_current_task(tmp_path, "current_retransmit") as current:
            finish(near.popen(a, sys.executable, "-c", SEND, address, PORT, BYTES), 120)
            right, wrong = current.amount(RETRANSMIT, a), current.amount(RETRANSMIT, b)
        finish(server)
        counted = near.counter("TcpRetransSegs") - hidden()
    found = by_path(recording, f"op = 'retransmit' and remote_port = {PORT}")
    assert counted > 10
    assert found == {f"/{a.name}": counted}
    rows = recording.sql(
        f"select distinct local_ip, remote_ip, attribution, rtt_ns > 0 as rtt from tcp_events "
        f"where op = 'retransmit' and remote_port = {PORT} and state = 'ESTABLISHED'"
    )
    local = near.address if version == 4 else near.address6
    assert rows == [{"local_ip": local, "remote_ip": address, "attribution": "socket", "rtt": True}]
    with capsys.disabled():
        print(f"\nretransmits (IPv{version}): 0 of {counted} wrong, 100% known; by current task "
              f"{right} right, {wrong} charged to the other")  # fmt: skip


def test_a_connection_taken_in_an_interrupt_belongs_to_the_listener(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b, other = cgroups(), cgroups(), cgroups()
    with wire() as (near, far), record(store, "--events", "tcp,net") as recording:
        server = sink(far, a, far.address, CONNECTIONS)
        client = KNOCK.format(n=CONNECTIONS, address=far.address, port=PORT)
        with burning(b), count_by_current_task(tmp_path, "current_state") as current:
            finish(near.popen(other, sys.executable, "-c", client), 120)
            finish(server, 120)
            right, wrong = current.amount(ESTABLISHED, a), current.amount(ESTABLISHED, b)
    found = by_path(recording, f"op = 'state' and state = 'ESTABLISHED' and local_port = {PORT}")
    assert found == {f"/{a.name}": CONNECTIONS}
    rows = recording.sql(
        "select op, cgroup_path, pid, count(*) as n from net_events join containers "
        f"using (cgroup_id) where op in ('accept', 'connect') and '{far.address}:{PORT}' in "
        "(local, remote) group by all order by op"
    )
    assert [(row["op"], row["cgroup_path"], row["n"]) for row in rows] == [
        ("accept", f"/{a.name}", CONNECTIONS),
        ("connect", f"/{other.name}", CONNECTIONS),
    ]
    with capsys.disabled():
        print(f"\naccepts: 0 of {CONNECTIONS} wrong; by current task {right} of "
              f"{2 * CONNECTIONS} ends right, {wrong} charged to the other")  # fmt: skip


def test_a_socket_that_outlives_its_process_keeps_its_owner(
    cgroups: Callable[[], Cgroup], store: Path
) -> None:
    a, other = cgroups(), cgroups()
    with wire() as (near, far), record(store, "--events", "tcp") as recording:
        server = sink(far, other, far.address)
        leaver = near.popen(a, sys.executable, "-c", LEAVE, far.address, PORT, stdin=-1)
        assert leaver.stdout is not None
        assert leaver.stdout.readline() == "connected\n"
        far.lose(100)
        leaver.communicate("go\n", timeout=60)
        ended_ns = time.time_ns()
        rows = recording.wait_for(
            "select distinct cgroup_path from tcp_events join containers using (cgroup_id) "
            f"where op = 'retransmit' and remote_port = {PORT} and timestamp_ns > {ended_ns}"
        )
        server.kill()
        server.communicate()
        # A socket keeps its namespace alive: it would send on, in the middle of another test.
        far.heal()
        near.settle()
    assert rows == [{"cgroup_path": f"/{a.name}"}]


def test_a_socket_that_was_passed_on_belongs_to_where_it_was_made(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    a, b, other = cgroups(), cgroups(), cgroups()
    with (
        wire() as (near, far),
        hidden_by_init(tmp_path, a) as hidden,
        record(store, "--events", "tcp,net") as recording,
    ):
        server = sink(far, other, far.address)
        far.lose(3)
        one, two = socket.socketpair()
        with one, two:
            giver = near.popen(
                a, sys.executable, "-c", GIVE, far.address, PORT, one.fileno(),
                pass_fds=[one.fileno()],
            )  # fmt: skip
            taker = b.popen(
                [sys.executable, "-c", TAKE, two.fileno(), BYTES], pass_fds=[two.fileno()]
            )
            finish(taker, 120)
            finish(giver)
        finish(server)
        counted = near.counter("TcpRetransSegs") - hidden()
    assert by_path(recording, f"op = 'retransmit' and remote_port = {PORT}") == {
        f"/{a.name}": counted
    }
    # The bytes are the sender's: it made the call.
    rows = recording.sql(
        "select cgroup_path, sum(bytes)::bigint as bytes from net_events join containers using "
        f"(cgroup_id) where op = 'send' and remote = '{far.address}:{PORT}' group by all"
    )
    assert rows == [{"cgroup_path": f"/{b.name}", "bytes": BYTES}]


def test_resets_belong_to_who_was_refused_and_to_nobody(cgroup: Cgroup, store: Path) -> None:
    script = """
import socket
for _ in range(23):
    try:
        socket.create_connection(("%s", 9))
    except ConnectionRefusedError:
        pass
"""
    with wire() as (near, far), record(store, "--events", "tcp") as recording:
        finish(near.popen(cgroup, sys.executable, "-c", script % far.address))
    assert by_path(recording, "op = 'reset_received' and remote_port = 9") == {
        f"/{cgroup.name}": 23
    }
    assert by_path(recording, "op = 'reset_sent' and local_port = 9") == {"kernel": 23}


def test_a_server_that_listened_before_the_recording_is_known_by_its_thread(
    cgroups: Callable[[], Cgroup], store: Path
) -> None:
    server_cgroup, client_cgroup = cgroups(), cgroups()
    with wire() as (near, far):
        server = sink(far, server_cgroup, far.address, 23)
        with record(store, "--events", "tcp") as recording:
            knock = KNOCK.format(n=23, address=far.address, port=PORT)
            finish(near.popen(client_cgroup, sys.executable, "-c", knock))
            finish(server)
    rows = recording.sql(
        "select count(*) as n, count(distinct pid) as pids, any_value(pid) as pid from tcp_events "
        f"where op = 'state' and state = 'ESTABLISHED' and local_port = {PORT}"
    )
    assert rows == [{"n": 23, "pids": 1, "pid": server.pid}]
