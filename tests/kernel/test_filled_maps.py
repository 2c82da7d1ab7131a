"""A tenant fills what is remembered of disks, connections, CPUs and facts, beside a neighbour."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from cotenant.schema.holes import NO_FLOW, NO_REQUEST, NO_WAIT, Reason
from tests.kernel.attackers import CALM, delegated, shrink, used
from tests.kernel.compiler import build_library
from tests.kernel.conftest import Cgroup, Recording, new_cgroup, record
from tests.kernel.script import Script
from tests.kernel.tenants import finish, python
from tests.kernel.test_io import charged
from tests.kernel.test_overload import notes, warm

PAGES = 101
READS = 211
CONNECTIONS = 23
FORKS = 307
CROWD = 41
PAGE = 4096
WHOLE = 1 << 14

# Pages of a file, no two of which are of one folio.
DIRTY = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
for number in range(int(sys.argv[2])):
    os.pwrite(fd, bytes(4096), number * 65536)
"""
# More cgroups write side by side than are told apart in one request.
WRITE_PAGES = """
import os, sys
from pathlib import Path
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
inner = [Path(sys.argv[2]) / f"writer-{number}" for number in range(7)]
for path in inner:
    path.mkdir()
for number, path in enumerate(inner):
    (path / "cgroup.procs").write_text("0")
    os.pwrite(fd, bytes(4096), number * 4096)
os.fsync(fd)
"""
# Hands in as many reads at once as one call takes, as long as its input is open.
READ_AHEAD = """
DEPTH = 256
libc = ctypes.CDLL(None, use_errno=True)
disk = os.open(FILE, os.O_RDONLY | os.O_DIRECT)
import mmap, random
room = mmap.mmap(-1, DEPTH * 4096)
at = ctypes.addressof(ctypes.c_char.from_buffer(room))
context, events = c_uint64(), ctypes.create_string_buffer(32 * DEPTH)
assert libc.syscall(206, DEPTH, byref(context)) == 0
stop = threading.Event()

def storm():
    while not stop.is_set():
        blocks = [ctypes.create_string_buffer(struct.pack(
            "QIIHhIQQqQII", 0, 0, 0, 0, 0, disk, at + n * 4096, 4096,
            random.randrange(SIZE // 4096) * 4096, 0, 0, 0)) for n in range(DEPTH)]
        batch = (c_void_p * DEPTH)(*map(ctypes.addressof, blocks))
        done = libc.syscall(209, context, DEPTH, batch)
        assert done > 0
        assert libc.syscall(208, context, done, done, events, None) == done

thread = threading.Thread(target=storm)
thread.start()
time.sleep(0.3)
say(ready=1)
wait()
stop.set()
thread.join()
"""
READ = """
import mmap, os, sys
room = mmap.mmap(-1, 4096)
disk = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
print(sum(os.preadv(disk, [room], at * 4096) for at in range(int(sys.argv[2]))))
"""
# Connections whose other end says more after they are closed: each is answered with a reset.
CLOSE = """
import socket
server = socket.create_server(("127.0.0.1", 0), backlog=64)
say(port=server.getsockname()[1])
held = [server.accept()[0] for _ in range(COUNT)]
for one in held:
    assert one.recv(1) == b""
say(closed=1)
wait()
for one in held:
    one.send(b"7 bytes")
"""
CONNECT = """
import socket, sys
for _ in range(int(sys.argv[2])):
    socket.create_connection(("127.0.0.1", int(sys.argv[1]))).close()
"""
KNOCK = """
import socket, struct
server = socket.create_server(("127.0.0.1", 0), backlog=64)
for _ in range(6007):
    client = socket.create_connection(server.getsockname())
    other, _ = server.accept()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    other.close()
"""
# A user with a cgroup for each of its processes, all of which want one CPU, in no order.
CROWDED = """
import random
os.setpgrp()
os.setresgid(65534, 65534, 65534), os.setresuid(65534, 65534, 65534)
os.sched_setaffinity(0, {0})
for number in range(CROWD):
    os.mkdir(f"{HOME}/{number}")
    if not os.fork():
        with open(f"{HOME}/{number}/cgroup.procs", "w") as file:
            file.write("0")
        while True:
            time.sleep(random.random() / 250)
            end = time.monotonic() + random.random() / 1000
            while time.monotonic() < end:
                pass
os.sched_setaffinity(0, {1})
time.sleep(2)
say(ready=1)
wait()
os.killpg(0, signal.SIGKILL)
"""
CROWDED_OUT = """
import os, time
def waited():
    return int(open("/proc/self/schedstat").read().split()[1])
os.sched_setaffinity(0, {0})
before, end = waited(), time.monotonic() + 3
while time.monotonic() < end:
    pass
print(waited() - before)
"""
FORK = """
import os, sys
os.sched_setaffinity(0, {1})
for _ in range(int(sys.argv[1])):
    if not os.fork():
        os._exit(0)
    os.wait()
"""

# One call tells of 64 communicators.
COMMUNICATORS = """
lib = ctypes.CDLL(LIBRARY)
made, stop = (c_uint64 * 64)(*range(1, 65)), threading.Event()
say(ready=1)
wait()
def flood():
    while not stop.is_set():
        lib.ncclCommInitAll(made, 64, None)
thread = threading.Thread(target=flood)
thread.start()
wait()
stop.set()
thread.join()
"""


@dataclass(frozen=True)
class Attacked:
    """A recording of both, and what the neighbour says of itself."""

    recording: Recording
    storm: Cgroup
    calm: Cgroup
    file: Path
    port: int
    read_bytes: int
    waited_ns: int
    bios_left: int

    def holes(self, family: str, reason: Reason) -> list[str]:
        """Which of the two has a hole of this family, by path."""
        rows = self.recording.sql(
            "select distinct c.cgroup_path as path from losses l join containers c "
            f"using (cgroup_id) where l.family = '{family}' and reason = '{reason.name}' "
            f"and c.cgroup_path in ('/{self.storm.name}', '/{self.calm.name}')"
        )
        return [row["path"] for row in rows]

    def of_calm(self, what: str, source: str, condition: str) -> object:
        """An aggregate over the neighbour's rows."""
        (row,) = self.recording.sql(
            f"select ({what})::bigint as n from {source} join containers c using (cgroup_id) "
            f"where c.cgroup_path = '/{self.calm.name}' and {condition}"
        )
        return row["n"]

    def refused(self, name: str) -> set[str]:
        """Which of the two was refused room in a map; others work on this host, too."""
        both = {f"/{self.storm.name}": "storm", f"/{self.calm.name}": "calm"}
        return {both[path] for path in notes(self.recording)["refused"][name] if path in both}


def program(cgroup: Cgroup, text: str, **names: object) -> Script:
    """A script of a tenant that knows these names."""
    given = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    return Script(cgroup, given + text)


def _dirty(storm: Cgroup, calm: Cgroup, directory: Path) -> None:
    finish(python(storm, WRITE_PAGES, directory / "shared", storm.path))
    os.sync()
    finish(python(storm, DIRTY, directory / "many", 5003))
    finish(python(calm, DIRTY, directory / "few", PAGES))
    os.sync()


def _read(storm: Cgroup, calm: Cgroup, file: Path, other: Path) -> int:
    loud = program(storm, READ_AHEAD, FILE=str(other), SIZE=READS * PAGE)
    assert loud.heard() == {"ready": 1}
    said = finish(python(calm, READ, file, READS))
    loud.go_on()
    loud.end()
    return int(said)


def _connect(storm: Cgroup, calm: Cgroup, other: Cgroup) -> int:
    server = program(other, CLOSE, COUNT=CONNECTIONS)
    port = int(server.heard()["port"])
    finish(python(calm, CONNECT, port, CONNECTIONS))
    assert server.heard() == {"closed": 1}
    finish(python(storm, KNOCK))
    server.go_on()
    server.end()
    return port


def _wait(recording: Recording, storm: Cgroup, calm: Cgroup) -> int:
    crowd = program(storm, CROWDED, HOME=str(storm.path), CROWD=CROWD)
    assert crowd.heard() == {"ready": 1}
    waited = int(finish(python(calm, CROWDED_OUT)))
    finish(python(calm, FORK, FORKS))
    # The scheduler may take its time until each has waited for each other.
    recording.wait_for("""select 1 from sessions where notes like '%"contention": {%'""")
    (storm.path / "cgroup.kill").write_text("1")
    crowd.end(-signal.SIGKILL)
    return waited


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """Everything at the expense of one recording."""
    directory = tmp_path_factory.mktemp("filled")
    with ExitStack() as stack:
        storm, calm, other = (stack.enter_context(new_cgroup()) for _ in range(3))
        disk = Path("/var/tmp") / f"cotenant-test-{os.getpid()}"
        disk.mkdir()
        stack.callback(disk.rmdir)
        for name in ("many", "few", "shared", "read", "other"):
            stack.callback((disk / name).unlink, missing_ok=True)
        for name in ("read", "other"):
            (disk / name).write_bytes(os.urandom(READS * PAGE))
        os.sync()
        with record(directory / "store", "--events", "host,io,tcp") as recording, delegated(storm):
            # One disk and one CPU would not fill them as large as they are.
            shrink(recording, dirtied=4096)
            _dirty(storm, calm, disk)
            shrink(recording, dirtied=WHOLE, requests=128, bios=64)
            read_bytes = _read(storm, calm, disk / "read", disk / "other")
            bios_left = used(recording, storm, "bios")
            shrink(recording, requests=WHOLE, bios=WHOLE, contention=512, spare_totals=32)
            waited_ns = _wait(recording, storm, calm)
            shrink(recording, contention=WHOLE, spare_totals=WHOLE)
            port = _connect(storm, calm, other)
        said = read_bytes, waited_ns, bios_left
        yield Attacked(recording, storm, calm, disk / "read", port, *said)


def test_pages_that_a_tenant_dirties_leave_its_neighbour_who_dirtied_his(
    attacked: Attacked,
) -> None:
    written = "op = 'write' and attribution = 'dirtier'"
    assert attacked.of_calm("sum(bytes)", "io_events", written) == PAGES * PAGE
    assert attacked.refused("dirtied") == {"storm"}


def test_requests_that_a_tenant_queues_leave_its_neighbour_every_row(attacked: Attacked) -> None:
    assert attacked.read_bytes == READS * PAGE
    found = charged(attacked.recording, attacked.file, "read")
    # What the other reads beside his file may be part of his requests, and is nobody's.
    found.pop("unknown", None)
    assert found == {f"/{attacked.calm.name}": READS * PAGE}
    for quota in ("requests", "bios", "owners"):
        assert attacked.refused(quota) == {"storm"}
    assert attacked.holes("io", NO_REQUEST) == [f"/{attacked.storm.name}"]


def test_what_is_merged_into_a_request_that_was_refused_is_not_kept(attacked: Attacked) -> None:
    assert attacked.bios_left == 0


def test_connections_that_a_tenant_closes_leave_its_neighbour_his_own(attacked: Attacked) -> None:
    resets = f"op = 'reset_sent' and remote_port = {attacked.port}"
    assert attacked.of_calm("count(*)", "tcp_events", resets) == CONNECTIONS
    assert attacked.refused("closed_flows") == {"storm"}
    assert attacked.holes("tcp", NO_FLOW) == [f"/{attacked.storm.name}"]
    # Those of either come in interrupts of the other's.
    assert "tcp_state" not in notes(attacked.recording).get("programs_missed", {})


def test_cgroups_that_wait_for_each_other_leave_their_neighbour_who_had_his_cpu(
    attacked: Attacked,
) -> None:
    assert attacked.of_calm("sum(waited_ns)", "cpu_contention", "true") > 0.9 * attacked.waited_ns
    found = notes(attacked.recording)
    assert sum(found["refused"]["contention"].values()) == found["contention_full"]
    assert attacked.refused("contention") == {"storm"}
    holes = attacked.recording.sql(
        "select distinct c.cgroup_path as path from losses l join containers c using (cgroup_id) "
        f"where reason = '{NO_WAIT.name}'"
    )
    paths = {hole["path"] for hole in holes}
    assert f"/{attacked.storm.name}" in paths
    assert f"/{attacked.calm.name}" not in paths


def test_totals_made_while_no_memory_can_be_had_leave_a_neighbour_his_own(
    attacked: Attacked,
) -> None:
    mine = "family = 'host' and function = 'fork'"
    assert attacked.of_calm("sum(count)", "totals", mine) == FORKS
    assert attacked.refused("spare_totals") == {"storm"}


def test_a_flood_of_communicators_leaves_its_neighbour_his_graphs(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    storm, calm, before = cgroups(), cgroups(), cgroups()
    symbols = ["ncclCommInitAll", "ncclAllReduce"]
    library = str(build_library(tmp_path / "libnccl.so.2", symbols))
    with record(store, "--budget", "off") as recording:
        warm(recording, before)
        flood = Script(storm, COMMUNICATORS.replace("LIBRARY", repr(library)))
        flood.heard()
        recording.wait_probed(library)
        flood.go_on()
        time.sleep(1)
        script = Script(calm, CALM)
        assert script.heard() == {"done": 1}
        for _ in range(2):
            script.go_on()
        script.end()
        flood.go_on()
        flood.end()
    rows = recording.sql(
        "select kernel_name, nodes from graph_kernels join containers using (cgroup_id) "
        f"where cgroup_path = '/{calm.name}'"
    )
    assert rows == [{"kernel_name": "calm", "nodes": 97}]
    (timed,) = recording.sql(
        "select count(gpu_ns)::bigint as n from cuda_events join containers using (cgroup_id) "
        f"where cgroup_path = '/{calm.name}' and op = 'launch'"
    )
    assert timed == {"n": 13}
    refused = notes(recording)["refused"]["facts"]
    assert refused == {f"/{storm.name}": refused[f"/{storm.name}"]}
    assert "fact_lost" not in notes(recording)
