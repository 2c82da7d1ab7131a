"""Kernel events beyond their budget: counted for all, and rows for tenants that come first."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.conftest import SIM, Cgroup, Recording, command, record, sim_environment
from tests.kernel.tenants import finish, python
from tests.kernel.test_net import MESSAGES, PAIR, SIZE, moved
from tests.kernel.test_overload import fate, notes

CONNECTIONS = 2003

# Sends and receives until its input ends, and prints how many messages that were.
STORM = """
import select, socket, sys
socket.setdefaulttimeout(10)
receiver, sender = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
receiver.bind(("127.0.0.1", 0))
sender.connect(receiver.getsockname())
sent = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    for _ in range(500):
        sender.send(b"x")
        receiver.recv(1)
    sent += 500
print(sent)
"""

# As a compiler: it never sleeps of its own will. In real time, to meet its victim alone.
COMPILE = """
import os, time
os.sched_setaffinity(0, {0})
os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
open("/proc/self/comm", "w").write("cc1-test")
end = time.monotonic() + 30
while time.monotonic() < end:
    pass
"""

# As a backup: large reads past the page cache, in bursts, by threads of its own.
BACKUP = """
import mmap, os, random, sys, threading, time
open("/proc/self/comm", "w").write("backup-test")
BYTES = 4 << 20
disk = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
def read(until, first):
    room, at = mmap.mmap(-1, BYTES), first * BYTES
    while time.monotonic() < until:
        at = at + BYTES if os.preadv(disk, [room], at) == BYTES else 0
dice = random.Random(7)
while not os.path.exists(sys.argv[2]):
    until = time.monotonic() + dice.uniform(0.2, 0.5)
    threads = [threading.Thread(target=read, args=(until, first)) for first in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(dice.uniform(0.2, 0.5))
"""

# Small reads past the page cache, as a data set that is read sample by sample.
SAMPLES = """
import mmap, os, sys, time
room = mmap.mmap(-1, 4096)
disk = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
end, at = time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < end:
    os.preadv(disk, [room], at)
    at = (at + 77 * 4096) % (32 << 20)
    time.sleep(0.002)
"""

# Connects where no server listens, so often.
REFUSED = """
import socket, sys
refused = 0
for _ in range(int(sys.argv[1])):
    try:
        socket.create_connection(("127.0.0.1", 9))
    except ConnectionRefusedError:
        refused += 1
print(refused)
"""

PINNED = """
import os, sys
os.sched_setaffinity(0, {0})
os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
os.execv(sys.argv[1], sys.argv[1:])
"""


def totals(recording: Recording, cgroup: Cgroup) -> dict[str, int]:
    rows = recording.sql(
        "select function, sum(count)::int as n from totals join containers using (cgroup_id) "
        f"where family = 'net' and cgroup_path = '/{cgroup.name}' group by 1"
    )
    return {row["function"]: row["n"] for row in rows}


def storm(cgroup: Cgroup) -> subprocess.Popen[str]:
    return python(cgroup, STORM, stdin=subprocess.PIPE)


def end(process: subprocess.Popen[str]) -> int:
    """Let a storm end; how many messages it sent."""
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return int(said)


def use_gpu(cgroup: Cgroup) -> None:
    words = [SIM / "workload", "--api", "driver", "--steps", "11"]
    finish(cgroup.popen(words, env=sim_environment(), stderr=subprocess.DEVNULL))


def explained(recording: Recording, kind: str, victim: Cgroup) -> list[dict[str, Any]]:
    """What `explain` reports of this kind."""
    code, said, _ = command("explain", "--store", recording.store, "--json")
    assert code == 0
    return [
        finding
        for finding in json.loads(said)["findings"]
        if finding["kind"] == kind and finding["victim"] == f"/{victim.name}"
    ]


def test_unix_messages_are_counted_exactly_and_are_no_rows(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    with record(store, "--events", "net") as recording:
        path = tmp_path / "socket"
        finish(python(cgroup, PAIR, "AF_UNIX", "SOCK_DGRAM", path, MESSAGES, SIZE))
    assert moved(recording, cgroup) == {}
    assert totals(recording, cgroup) == {"send": MESSAGES, "recv": MESSAGES}
    rows = recording.sql(
        "select sum(bytes)::int as bytes from totals join containers using (cgroup_id) "
        f"where family = 'net' and cgroup_path = '/{cgroup.name}'"
    )
    assert rows == [{"bytes": 2 * MESSAGES * SIZE}]
    assert notes(recording)["left_to_totals"]["unix_messages"] >= 2 * MESSAGES


def test_a_storm_without_a_gpu_leaves_a_gpu_tenant_its_rows(
    cgroups: Callable[[], Cgroup], store: Path
) -> None:
    gpu, plain = cgroups(), cgroups()
    with record(store, "--kernel-budget", "0.5%") as recording:
        use_gpu(gpu)
        loud = storm(plain)
        time.sleep(2)
        finish(python(gpu, PAIR, "AF_INET", "SOCK_DGRAM", "127.0.0.1", MESSAGES, SIZE))
        sent = end(loud)
    assert totals(recording, plain) == {"send": sent, "recv": sent}
    what = fate(recording, plain, "net")
    assert what["seen"] == 2 * sent
    assert what["shed"] > 0
    assert what["seen"] == what["stored"] + what["shed"] + what["lost"]
    expected = MESSAGES * SIZE
    assert moved(recording, gpu) == {("send", "udp"): expected, ("recv", "udp"): expected}
    assert fate(recording, gpu, "net")["shed"] == 0
    reasons = recording.sql(
        "select distinct reason from losses join containers using (cgroup_id) "
        f"where cgroup_path = '/{plain.name}' and family = 'net' and shed > 0"
    )
    assert any("over the kernel budget" in row["reason"] for row in reasons)
    assert "imbalance" not in notes(recording)
    assert notes(recording)["left_to_totals"]["over_budget"]["net"] >= what["shed"] / 2
    assert notes(recording)["kernel_cost"]["families"]["net"]["runs"] > sent


def test_without_a_budget_no_row_is_left_out_for_it(cgroup: Cgroup, store: Path) -> None:
    with record(store, "--events", "net", "--kernel-budget", "off") as recording:
        finish(python(cgroup, PAIR, "AF_INET", "SOCK_DGRAM", "127.0.0.1", 20011, 7))
    reasons = recording.sql("select distinct reason from losses where reason like '%budget%'")
    assert reasons == []


@pytest.mark.skipif(os.cpu_count() == 1, reason="only one CPU here")
def test_a_compiler_that_takes_a_cpu_is_named_though_the_budget_is_short(
    cgroups: Callable[[], Cgroup], store: Path
) -> None:
    gpu, compiler, plain = cgroups(), cgroups(), cgroups()
    words = [SIM / "workload", "launch", "--api", "driver", "--steps", "3000", "--spin-us", "1000"]
    with record(store, "--kernel-budget", "0.2%") as recording:
        loud = storm(plain)
        time.sleep(1)
        pinned = [sys.executable, "-c", PINNED, *words]
        victim = gpu.popen(pinned, env=sim_environment(), stderr=subprocess.DEVNULL)
        burner = python(compiler, COMPILE)
        finish(victim)
        burner.terminate()
        burner.communicate(timeout=60)
        end(loud)
    found = explained(recording, "CPU starvation", gpu)
    assert [finding["culprit"] for finding in found] == [f"/{compiler.name}"]
    evidence = " ".join(found[0]["evidence"])
    assert f"cc1-test (process {burner.pid})" in evidence
    assert found[0]["cost_ns"] > 0


@pytest.fixture
def disk_file() -> Iterator[Path]:
    """A file on a disk, not in memory."""
    path = Path("/var/tmp") / f"cotenant-test-{os.getpid()}"
    path.write_bytes(os.urandom(64 << 20))
    os.sync()
    yield path
    path.unlink(missing_ok=True)


def test_a_backup_that_slows_a_disk_is_named_though_the_budget_is_short(
    cgroups: Callable[[], Cgroup], store: Path, disk_file: Path, tmp_path: Path
) -> None:
    gpu, backup = cgroups(), cgroups()
    end_of_backup = tmp_path / "end"
    with record(store, "--kernel-budget", "0.05%") as recording:
        use_gpu(gpu)
        copying = python(backup, BACKUP, disk_file, end_of_backup)
        finish(python(gpu, SAMPLES, disk_file, 8))
        end_of_backup.touch()
        finish(copying)
    found = explained(recording, "shared disk", gpu)
    assert [finding["culprit"] for finding in found] == [f"/{backup.name}"]
    evidence = " ".join(found[0]["evidence"])
    assert f"backup-test (process {copying.pid})" in evidence
    assert found[0]["cost_ns"] > 0


def test_resets_of_all_tenants_are_rows_though_the_budget_is_used_up(
    cgroup: Cgroup, store: Path
) -> None:
    with record(store, "--events", "tcp", "--kernel-budget", "0.01%") as recording:
        refused = int(finish(python(cgroup, REFUSED, CONNECTIONS)))
    assert refused == CONNECTIONS
    rows = recording.sql(
        "select count(*)::int as n, sum(weight)::int as weight from tcp_events "
        f"join containers using (cgroup_id) where cgroup_path = '/{cgroup.name}' "
        "and op = 'reset_received'"
    )
    assert rows == [{"n": refused, "weight": refused}]
    assert fate(recording, cgroup, "tcp")["shed"] > 0
