"""A store with three tenants, and `cotenant serve` on it, for whatever looks at the page."""

import http.client
import json
import os
import re
import signal
import socket as socket_module
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from cotenant.schema import TABLES
from cotenant.store.writer import StoreWriter

NOW_NS = 1_790_000_000_000_000_000  # 2026-09-21 14:13:20 UTC.
SECOND_NS = 1_000_000_000
TENANTS = {
    "ml/train": 4_611_686_018_427_387_847,
    "ml/serve": 2_305_843_009_213_693_951,
    "slurm/4711": 1_152_921_504_606_846_883,
}
CONTAINERS = [
    {"cgroup_id": number, "tenant": name, "container_id": name, "node": "n", "boot_id": "b"}
    for name, number in TENANTS.items()
]
LAUNCHES = {"ml/train": 211, "ml/serve": 101, "slurm/4711": 53}
KERNELS = {
    "ml/train": "void flash_forward<128>(float*)",
    "ml/serve": "void gemm<float>(float*)",
    "slurm/4711": "secret_kernel",
}
COLLECTIVES = 13
RETRANSMITS = 7


def _row(tenant: str, at_ns: int) -> dict[str, Any]:
    pid = 101 + list(TENANTS).index(tenant)
    same = {"timestamp_ns": at_ns, "pid": pid, "tid": pid, "comm": "python", "weight": 1}
    return same | {"cgroup_id": TENANTS[tenant]}


def _launches(tenant: str) -> list[dict[str, Any]]:
    step = SECOND_NS // LAUNCHES[tenant]
    call = {"op": "launch", "api": "cuLaunchKernel", "kernel_name": KERNELS[tenant]}
    return [
        _row(tenant, NOW_NS + i * step)
        | call
        | {"duration_ns": 5_003 + i, "stream": 0x5581_0000_0000 + i % 2, "result": 0}
        for i in range(LAUNCHES[tenant])
    ]


def _totals(tenant: str) -> dict[str, Any]:
    histogram = [0] * 40
    histogram[12] = LAUNCHES[tenant]
    row = {"timestamp_ns": NOW_NS + SECOND_NS, "cgroup_id": TENANTS[tenant], "family": "cuda"}
    row |= {"function": "cuLaunchKernel", "count": LAUNCHES[tenant], "histogram": histogram}
    return row | {"sum_ns": 5_003 * LAUNCHES[tenant], "max_ns": 6_007, "bytes": 0}


def _others() -> dict[str, list[dict[str, Any]]]:
    """A few rows of every other family that this schema has."""
    nccl = {"op": "AllReduce", "api": "ncclAllReduce", "duration_ns": 1_000_003, "bytes": 1 << 20}
    tcp = {"op": "retransmit"}
    io = {"op": "write", "duration_ns": 300_007, "bytes": 4_096, "device": "vda"}
    host = {"op": "wakeup", "duration_ns": 90_001}
    steps = {
        "nccl_events": ("ml/train", nccl, COLLECTIVES),
        "tcp_events": ("ml/serve", tcp, RETRANSMITS),
        "io_events": ("slurm/4711", io, 11),
        "host_events": ("ml/train", host, 17),
    }
    return {
        table: [_rest(table) | _row(who, NOW_NS + i * 50_000_017) | more for i in range(count)]
        for table, (who, more, count) in steps.items()
        if table in TABLES
    }


def _rest(table: str) -> dict[str, Any]:
    """What the table must have, and these tests do not look at."""
    needed = [column for column in TABLES[table].columns if not column.nullable]
    return {column.name: "" if column.type == "string" else 0 for column in needed}


def three_tenants(root: Path, **options: Any) -> Path:
    """A store in which three tenants launch, one of them also reduces; 5 events were lost."""
    with StoreWriter(root, node="n", boot_id="b", **options) as writer:
        writer.replace("containers", pa.Table.from_pylist(CONTAINERS))
        for tenant in TENANTS:
            writer.append("cuda_events", pa.Table.from_pylist(_launches(tenant)))
            writer.append("totals", pa.Table.from_pylist([_totals(tenant)]))
        for table, rows in _others().items():
            writer.append(table, pa.Table.from_pylist(rows))
        loss = {"timestamp_ns": NOW_NS, "family": "cuda", "cgroup_id": TENANTS["slurm/4711"]}
        loss |= {"seen": 58, "stored": 53, "shed": 0, "lost": 5, "queued": 0}
        writer.append("losses", pa.Table.from_pylist([loss]))
        writer.seal(NOW_NS)
    return root


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        return str(self.json["error"])


@dataclass(frozen=True)
class Served:
    """A running `cotenant serve`."""

    port: int
    token: str
    process: "subprocess.Popen[str]"
    said: str = ""
    socket: Path | None = None
    below: str = ""  # The path of a proxy, with a slash at its end.

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{self.below}"

    def request(
        self,
        path: str,
        *,
        method: str = "GET",
        headers: dict[str, str] | None = None,
        body: bytes | None = None,
        token: str | None = "",
    ) -> Reply:
        """One request, as hostile as wanted; ``token`` None leaves it out."""
        sent = {"Host": f"127.0.0.1:{self.port}"} if self.socket is None else {"Host": "localhost"}
        if token is not None:
            sent["Authorization"] = f"Bearer {token or self.token}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        if self.socket is not None:
            connection.sock = _connected(self.socket)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in (sent | (headers or {})).items():
                if value is not None:
                    connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            got = connection.getresponse()
            return Reply(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
        finally:
            connection.close()

    def sql(self, text: str, **options: Any) -> Reply:
        """A question put to the SQL box."""
        body = json.dumps({"sql": text}).encode()
        headers = {"Content-Type": "application/json"}
        return self.request("/api/sql", method="POST", headers=headers, body=body, **options)

    def alive(self) -> bool:
        return self.process.poll() is None


def _connected(path: Path) -> socket_module.socket:
    one = socket_module.socket(socket_module.AF_UNIX)
    one.settimeout(60)
    try:
        one.connect(str(path))
    except OSError:
        one.close()
        raise
    return one


@contextmanager
def serving(
    store: Path,
    *options: str,
    token: str = "",
    socket: Path | None = None,
    environment: dict[str, str] | None = None,
) -> Iterator[Served]:
    """`cotenant serve` on any free port, until the test is done with it."""
    command = [sys.executable, "-m", "cotenant", "serve", "--store", str(store), "--port", "0"]
    # The interpreter may lie where only root may look.
    command += ["--as-root"] if os.geteuid() == 0 else []
    process = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | (environment or {}),
    )
    try:
        line = process.stdout.readline() if process.stdout else ""
        found = re.search(r"http://[^ /]*:(\d+)/[^ #]*(?:#token=(\S+))?", line)
        assert found, line
        served = Served(int(found[1]), found[2] or token, process, line, socket)
        _wait(served)
        yield served
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)
        if process.stdout:
            process.stdout.close()


def _wait(served: Served) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            served.request("/")
            return
        except OSError:
            assert served.alive()
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.05)
