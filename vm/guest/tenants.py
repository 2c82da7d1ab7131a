"""Tenants whose every act is known: they log it themselves, or the act is countable."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Protocol

from vm.guest.host import SIM, Group, new_group

Ask = Callable[[str], list[dict[str, Any]]]
_WAIT_S: Final = 200
STEPS: Final = 211
OPERATIONS: Final = ("launch", "memcpy", "memset", "alloc", "free", "sync")


class Act(Protocol):
    """Something that a tenant does while it is recorded."""

    def prepare(self) -> None:
        """Before the recording: start, and wait."""

    def begin(self) -> None:
        """Do it."""

    def end(self) -> None:
        """Wait until it is done."""

    def compare(self, ask: Ask) -> Iterator[dict[str, Any]]:
        """What was done beside what is stored."""


def compared(table: str, what: str, done: Any, stored: Any) -> dict[str, Any]:
    """One comparison, as it is reported."""
    return {"table": table, "what": what, "done": str(done), "stored": str(stored),
            "equal": done == stored}  # fmt: skip


def finish(process: "subprocess.Popen[str]") -> None:
    """Wait for a program that must end well."""
    code = process.wait(_WAIT_S)
    if code:
        raise RuntimeError(f"{process.args} ended with {code}")


class Client:
    """A program on the stand-in GPU, loaded before the recording, that calls during it."""

    def __init__(self, name: str, *options: str, nccl: bool = False) -> None:
        self._group = new_group(name)
        self._options = options
        self._nccl = nccl
        self._log = Path(f"/root/{name}.log")
        self._go = Path(f"/root/{name}.go")
        self._ready = Path(f"/root/{name}.ready")
        self._processes: list[subprocess.Popen[str]] = []

    def prepare(self) -> None:
        environment = {
            **os.environ,
            "LD_LIBRARY_PATH": str(SIM),
            "COTENANT_SIM_LOG": str(self._log),
        }
        each = ["--ready", str(self._ready), "--start-on", str(self._go)]
        ranks = [[*self._options, *each]]
        if self._nccl:
            shared = ["--ranks", "2", "--id-file", "/root/nccl.id"]
            ranks = [[*self._options, *each, *shared, "--rank", str(n)] for n in range(2)]
        self._processes = [
            self._group.popen([SIM / "workload", *words], env=environment) for words in ranks
        ]

    def begin(self) -> None:
        self._go.touch()

    def end(self) -> None:
        for process in self._processes:
            finish(process)

    def compare(self, ask: Ask) -> Iterator[dict[str, Any]]:
        calls = [json.loads(line) for line in self._log.read_text().splitlines()]
        yield from self._compare_cuda(ask, calls)
        if self._nccl:
            yield from self._compare_nccl(ask, calls)

    def _mine(self, table: str, more: str = "true") -> str:
        return (
            f"from {table} e join containers c using (cgroup_id) "
            f"where c.cgroup_path = '/{self._group.name}' and {more}"
        )

    def _compare_cuda(self, ask: Ask, calls: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        name = self._group.name
        done = Counter(
            (c["op"], c.get("bytes"), tuple(c.get("grid", ()))) for c in calls
            if c["op"] in OPERATIONS
        )  # fmt: skip
        rows = ask(f"select op, bytes, grid_x, grid_y, grid_z {self._mine('cuda_events')}")
        stored = Counter(
            (r["op"], r["bytes"], (r["grid_x"], r["grid_y"], r["grid_z"]) if r["grid_x"] else ())
            for r in rows if r["op"] in OPERATIONS
        )  # fmt: skip
        yield compared("cuda_events", f"calls of {name}", _total(done), _total(stored))
        yield compared("cuda_events", f"arguments of {name}", done - stored, stored - done)
        launched = Counter(c["kernel"] for c in calls if c["op"] == "launch")
        named = Counter(
            r["kernel_name"] for r in ask(f"select op, kernel_name {self._mine('cuda_events')}")
            if r["op"] == "launch"
        )  # fmt: skip
        # A guest without time leaves names mangled: the same names all the same.
        yield compared(
            "cuda_events", f"kernel names of {name}", demangled(launched), demangled(named)
        )

    def _compare_nccl(self, ask: Ask, calls: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        without_row = ("GroupStart", "GroupSimulateEnd", "CommUserRank", "CommCount")
        done = Counter(
            c["nccl"] for c in calls if c["op"] == "nccl" and c["nccl"] not in without_row
        )
        rows = ask(f"select op {self._mine('nccl_events')}")
        stored = Counter(r["op"] for r in rows)
        yield compared("nccl_events", f"calls of {self._group.name}", dict(sorted(done.items())),
                       dict(sorted(stored.items())))  # fmt: skip


def _total(counter: "Counter[Any]") -> int:
    return sum(counter.values())


def demangled(names: "Counter[str]") -> dict[str, int]:
    """The same by the names that another tool gives them."""
    asked = "\n".join(names)
    told = subprocess.run(["c++filt"], input=asked, capture_output=True, text=True, check=True)
    found: Counter[str] = Counter()
    for name, times in zip(told.stdout.splitlines(), names.values(), strict=True):
        found[name] += times
    return dict(sorted(found.items()))


class Programs:
    """A tenant that starts so many programs, one after the other."""

    TIMES: Final = 23

    def __init__(self) -> None:
        self._group: Group = new_group("programs")
        self._process: subprocess.Popen[str] | None = None

    def prepare(self) -> None:
        """Nothing to prepare."""

    def begin(self) -> None:
        script = f"i=0; while [ $i -lt {self.TIMES} ]; do /bin/true; i=$((i + 1)); done"
        self._process = self._group.popen(["/bin/sh", "-c", script])

    def end(self) -> None:
        assert self._process is not None
        finish(self._process)

    def compare(self, ask: Ask) -> Iterator[dict[str, Any]]:
        rows = ask(
            "select sum(count)::bigint as n from totals t join containers c using (cgroup_id) "
            "where family = 'host' and function = 'exec' and c.cgroup_path = '/programs'"
        )
        # The shell itself is one more.
        yield compared("host_events", "programs started", self.TIMES + 1, rows[0]["n"])


# Writes and reads a disk past the page cache.
_DISK: Final = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
page = mmap.mmap(-1, 65536)
for i in range(int(sys.argv[2])):
    os.pwritev(fd, [page], i * 65536)
for i in range(int(sys.argv[3])):
    os.preadv(fd, [page], i * 65536)
"""


class Disk:
    """A tenant that writes and reads a disk of its own, past the page cache."""

    WRITES: Final = 37
    READS: Final = 53

    def __init__(self, disk: str) -> None:
        self._disk = disk
        self._group = new_group("disk")
        self._process: subprocess.Popen[str] | None = None

    def prepare(self) -> None:
        """Nothing to prepare."""

    def begin(self) -> None:
        self._process = self._group.popen(
            [sys.executable, "-c", _DISK, self._disk, self.WRITES, self.READS]
        )

    def end(self) -> None:
        assert self._process is not None
        finish(self._process)

    def compare(self, ask: Ask) -> Iterator[dict[str, Any]]:
        for op, times in (("write", self.WRITES), ("read", self.READS)):
            rows = ask(
                "select coalesce(sum(bytes), 0)::bigint as n from io_events e "
                "join containers c using (cgroup_id) where c.cgroup_path = '/disk' "
                f"and op = '{op}' and device = '{Path(self._disk).name}'"
            )
            yield compared("io_events", f"bytes by {op}", times * 65536, rows[0]["n"])


_SERVER: Final = """
import socket, sys
with socket.create_server(("127.0.0.1", 9377)) as server:
    print("ready", flush=True)
    for _ in range(int(sys.argv[1])):
        connection, _ = server.accept()
        while connection.recv(65536):
            pass
        connection.close()
"""
_SENDER: Final = """
import socket, sys
for _ in range(int(sys.argv[1])):
    with socket.create_connection(("127.0.0.1", 9377)) as connection:
        connection.sendall(bytes(int(sys.argv[2])))
"""


class Network:
    """Two tenants with connections between them."""

    TIMES: Final = 11
    BYTES: Final = 40009

    def __init__(self) -> None:
        self._server_group, self._group = new_group("server"), new_group("sender")
        self._server: subprocess.Popen[str] | None = None
        self._process: subprocess.Popen[str] | None = None

    def prepare(self) -> None:
        self._server = self._server_group.popen(
            [sys.executable, "-c", _SERVER, self.TIMES], stdout=subprocess.PIPE
        )
        assert self._server.stdout is not None
        self._server.stdout.readline()

    def begin(self) -> None:
        self._process = self._group.popen([sys.executable, "-c", _SENDER, self.TIMES, self.BYTES])

    def end(self) -> None:
        assert self._process is not None
        assert self._server is not None
        finish(self._process)
        finish(self._server)

    def compare(self, ask: Ask) -> Iterator[dict[str, Any]]:
        for name, op in (("sender", "send"), ("server", "recv")):
            rows = ask(
                "select coalesce(sum(bytes), 0)::bigint as n from net_events e "
                f"join containers c using (cgroup_id) where c.cgroup_path = '/{name}' "
                f"and op = '{op}' and (local like '%:9377' or remote like '%:9377')"
            )
            done = self.TIMES * self.BYTES
            yield compared("net_events", f"bytes by {op} of {name}", done, rows[0]["n"])
        for name, port in (("sender", "remote_port"), ("server", "local_port")):
            rows = ask(
                "select count(*) as n from tcp_events e join containers c using (cgroup_id) "
                f"where c.cgroup_path = '/{name}' and op = 'state' and state = 'ESTABLISHED' "
                f"and {port} = 9377"
            )
            yield compared("tcp_events", f"connections of {name}", self.TIMES, rows[0]["n"])


def all_of(job: dict[str, Any]) -> list[Act]:
    """Every tenant of a recording."""
    steps = ("--steps", str(STEPS), "--seed", "7")
    return [
        Client("driver", "--api", "driver", *steps),
        Client("runtime12", "--api", "runtime12", *steps),
        Client("runtime13", "--api", "runtime13", *steps),
        Client("ranks", "train", "--steps", "23", nccl=True),
        Programs(),
        Disk(job.get("disk", "/dev/vdc")),
        Network(),
    ]
