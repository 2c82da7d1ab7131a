"""Kernel events beyond their budget: counted for all, and rows for tenants that come first."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernel.conftest import SIM, Cgroup, Recording, command, record, sim_environment
from tests.kernel.tenants import finish, python
from tests.kernel.test_net import MESSAGES, PAIR, SIZE, moved
from tests.kernel.test_overload import fate, notes

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


@pytest.mark.skipif(os.cpu_count() == 1, reason="the storm has a CPU of its own")
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
    code, said, _ = command("explain", "--store", recording.store, "--json")
    assert code == 0
    found = [
        finding
        for finding in json.loads(said)["findings"]
        if finding["kind"] == "CPU starvation" and finding["victim"] == f"/{gpu.name}"
    ]
    assert [finding["culprit"] for finding in found] == [f"/{compiler.name}"]
    evidence = " ".join(found[0]["evidence"])
    assert f"cc1-test (process {burner.pid})" in evidence
    assert found[0]["cost_ns"] > 0
