"""Threads on and off the CPU, compared with what the kernel's own counters and the threads say."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kernel.conftest import SIM, Cgroup, record, sim_environment
from tests.kernel.tenants import finish, python

WAKEUPS = 1009
CHILDREN = 23
V1 = Path("/sys/fs/cgroup")

# With precedence, so that the two meet each other and not what else is on the machine.
BURN = """
import os, sys, time
os.sched_setaffinity(0, {0})
os.nice(-15)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    pass
"""

ANYWHERE = """
import sys, time
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    pass
"""

# All at the same time, on one CPU.
BURN_TOGETHER = """
import os, sys, time
os.sched_setaffinity(0, {0})
os.nice(-15)
start = float(sys.argv[1])
time.sleep(max(0, start - time.monotonic()))
while time.monotonic() < start + 3:
    pass
"""

# Says how long it waited for the CPU, by the kernel's own count.
WAIT = """
import os, sys, time
def waited():
    return int(open("/proc/self/schedstat").read().split()[1])
os.sched_setaffinity(0, {0})
os.nice(-15)
before, end = waited(), time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    pass
print(waited() - before)
"""

# Reads one byte at a time in a thread of its own, and says which thread that is.
SLEEPER = """
import os, sys, threading
fd = int(sys.argv[1])
def read():
    print(threading.get_native_id(), flush=True)
    for _ in range(int(sys.argv[2])):
        os.read(fd, 1)
thread = threading.Thread(target=read)
thread.start()
thread.join()
"""

# Writes only when the other side has had time to fall asleep.
WAKER = """
import os, sys, time
fd = int(sys.argv[1])
for _ in range(int(sys.argv[2])):
    os.write(fd, b"x")
    time.sleep(0.001)
"""

SPAWN = "i=0; while [ $i -lt {n} ]; do /bin/true; i=$((i+1)); done"


def cpu_ns(cgroup: Cgroup) -> int:
    """The kernel's own count of a cgroup's time on CPUs."""
    words = dict(line.split() for line in (cgroup.path / "cpu.stat").read_text().splitlines())
    return int(words["usage_usec"]) * 1000


def on_cpu(recording, cgroup: Cgroup) -> int:
    rows = recording.sql(
        "select sum(sum_ns)::bigint as ns from totals join containers using (cgroup_id) "
        f"where family = 'host' and function = 'oncpu' and cgroup_path = '/{cgroup.name}'"
    )
    return rows[0]["ns"] or 0


def test_time_on_the_cpu_is_what_the_kernel_charges_to_each_cgroup(
    cgroups: Callable[[], Cgroup], store: Path
) -> None:
    a, b = cgroups(), cgroups()
    with record(store, "--events", "host") as recording:
        burners = [python(a, BURN, 2), python(b, BURN, 2)]
        for burner in burners:
            finish(burner)
        witness = [cpu_ns(a), cpu_ns(b)]
    for cgroup, expected in zip((a, b), witness, strict=True):
        # Interrupts are charged to whoever they interrupt here, and left out there.
        assert abs(on_cpu(recording, cgroup) - expected) < expected * 0.03 + 5_000_000


def test_no_more_time_on_cpus_is_counted_than_there_are_cpus(cgroup: Cgroup, store: Path) -> None:
    cpus = len(os.sched_getaffinity(0))
    # They are busy before the recording, and as it begins.
    burners = [python(cgroup, ANYWHERE, 12) for _ in range(2 * cpus)]
    with record(store, "--events", "host") as recording:
        for burner in burners:
            finish(burner)
    (row,) = recording.sql(
        "select sum(sum_ns) as ns, any_value(ended_ns - started_ns) as time_ns "
        "from totals, sessions where family = 'host' and function = 'oncpu'"
    )
    assert row["ns"] <= 1.02 * cpus * row["time_ns"]


def test_a_preempted_thread_says_which_tenant_took_its_cpu(
    cgroups: Callable[[], Cgroup], store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = cgroups(), cgroups()
    with record(store, "--events", "host", "--host-rows", "all") as recording:
        start = time.monotonic() + 3
        burners = {cgroup.name: python(cgroup, BURN_TOGETHER, start) for cgroup in (a, b)}
        for burner in burners.values():
            finish(burner)
    pids = {burner.pid: name for name, burner in burners.items()}
    rows = recording.sql(
        "select e.pid, e.op, e.state, e.peer_pid, c.cgroup_path, p.cgroup_path as peer_path "
        "from host_events e join containers c using (cgroup_id) "
        "left join containers p on p.cgroup_id = e.peer_cgroup_id "
        # Between fork and exec, neither of them is in its cgroup yet.
        "join (select max(timestamp_ns) as began from host_events "
        f"where op = 'exec' and pid in {tuple(pids)}) on e.timestamp_ns > began "
        f"where e.pid in {tuple(pids)} and op = 'switch' and state = 'R'"
    )
    assert len(rows) > 10
    assert [row for row in rows if row["cgroup_path"] != f"/{pids[row['pid']]}"] == []
    known = [row for row in rows if row["peer_pid"] in pids]
    assert [row for row in known if row["peer_path"] != f"/{pids[row['peer_pid']]}"] == []
    took = Counter((pids[row["pid"]], pids[row["peer_pid"]]) for row in known)
    assert took[a.name, b.name] > 0
    assert took[b.name, a.name] > 0
    with capsys.disabled():
        # The current task of a switch is the one that leaves: its span ends in the other's switch.
        print(f"\nswitch: 0 of {len(rows)} wrong; by current task {len(rows)} of {len(rows)}")


def test_a_wait_is_charged_to_those_who_ran_and_never_with_more_than_that(
    cgroups: Callable[[], Cgroup], store: Path
) -> None:
    """Three threads wait for the CPU that one of another tenant has, and for each other."""
    crowd, single = cgroups(), cgroups()
    with record(store, "--events", "host") as recording:
        start = time.monotonic() + 3
        burners = [python(cgroup, BURN_TOGETHER, start) for cgroup in (crowd,) * 3 + (single,)]
        for burner in burners:
            finish(burner)
    rows = recording.sql(
        "select v.cgroup_path as victim, p.cgroup_path as peer, sum(waited_ns)::bigint as ns "
        "from cpu_contention c join containers v using (cgroup_id) "
        "left join containers p on p.cgroup_id = c.peer_cgroup_id group by all"
    )
    had = {(row["victim"], row["peer"]): row["ns"] for row in rows}
    ran = {f"/{cgroup.name}": on_cpu(recording, cgroup) for cgroup in (crowd, single)}
    for (_, peer), ns in had.items():
        assert peer not in ran or ns <= ran[peer]
    a, b = ran
    # When one of them ran, the other had a thread that waited; but for their start.
    assert had[a, b] > 0.6 * ran[b]
    assert had[b, a] > 0.6 * ran[a]
    # Of the three, two wait for the third.
    assert had[a, a] > 0.6 * ran[a]


def test_tenants_whose_ids_are_alike_each_keep_their_waits(
    cgroups: Callable[[], Cgroup], store: Path
) -> None:
    """Three tenants take turns on a CPU; the ids of two have the last bits in common."""
    made = {}
    while (one := cgroups()).id % 128 not in made:
        made[one.id % 128] = one
    crowd = (
        one,
        made[one.id % 128],
        next(other for key, other in made.items() if key != one.id % 128),
    )
    with record(store, "--events", "host") as recording:
        waiting = [python(cgroup, WAIT, 3) for cgroup in crowd]
        waited = [int(finish(process)) for process in waiting]
    for cgroup, expected in zip(crowd, waited, strict=True):
        (row,) = recording.sql(
            "select sum(waited_ns)::bigint as ns, "
            "sum(waited_ns) filter (peer_cgroup_id is not null)::bigint as somebodys "
            "from cpu_contention join containers using (cgroup_id) "
            f"where cgroup_path = '/{cgroup.name}'"
        )
        assert row["ns"] > 0.95 * expected
        assert row["somebodys"] > 0.9 * expected


def test_a_wakeup_belongs_to_the_thread_that_wakes_up(
    cgroups: Callable[[], Cgroup], store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = cgroups(), cgroups()
    with record(store, "--events", "host", "--host-rows", "all") as recording:
        reader, writer = os.pipe()
        sleeper = python(b, SLEEPER, reader, WAKEUPS, pass_fds=[reader])
        assert sleeper.stdout is not None
        tid = int(sleeper.stdout.readline())
        time.sleep(0.2)
        waker = python(a, WAKER, writer, WAKEUPS, pass_fds=[writer])
        finish(waker)
        finish(sleeper)
        os.close(reader)
        os.close(writer)
    rows = recording.sql(
        "select e.op, c.cgroup_path, p.cgroup_path as peer_path, e.peer_pid, e.attribution "
        "from host_events e join containers c using (cgroup_id) "
        "left join containers p on p.cgroup_id = e.peer_cgroup_id "
        f"where e.tid = {tid}"
    )
    assert {row["cgroup_path"] for row in rows} == {f"/{b.name}"}
    assert {row["attribution"] for row in rows} == {"task"}
    wakeups = [row for row in rows if row["op"] == "wakeup" and row["peer_pid"] == waker.pid]
    # On a busy machine the reader is not always asleep when the next byte comes.
    assert len(wakeups) >= WAKEUPS * 0.5
    assert {row["peer_path"] for row in wakeups} == {f"/{a.name}"}
    spans = [row for row in rows if row["op"] == "switch"]
    assert len(spans) >= WAKEUPS * 0.5
    with capsys.disabled():
        print(f"\nwakeup: 0 of {len(wakeups)} wrong; by current task {len(wakeups)} wrong")


def test_births_and_ends_are_counted_exactly(cgroup: Cgroup, store: Path) -> None:
    with record(store, "--events", "host", "--host-rows", "all") as recording:
        shell = cgroup.popen(["/bin/sh", "-c", SPAWN.format(n=CHILDREN)])
        finish(shell)
    rows = recording.sql(
        "select op, count(*) as n from host_events join containers using (cgroup_id) "
        f"where cgroup_path = '/{cgroup.name}' and op in ('fork', 'exec', 'exit') group by op"
    )
    # The shell itself was forked outside, and is executed and ends inside.
    assert {row["op"]: row["n"] for row in rows} == {
        "fork": CHILDREN,
        "exec": CHILDREN + 1,
        "exit": CHILDREN + 1,
    }


def test_by_default_rows_are_for_tenants_that_use_a_gpu(
    cgroups: Callable[[], Cgroup], store: Path
) -> None:
    gpu, plain = cgroups(), cgroups()
    with record(store) as recording:
        workload = gpu.popen(
            [SIM / "workload", "--api", "driver", "--steps", "101"],
            env=sim_environment(),
            stderr=subprocess.DEVNULL,
        )
        finish(workload)
        shell = plain.popen(["/bin/sh", "-c", SPAWN.format(n=CHILDREN)])
        finish(shell)
    rows = recording.sql(
        "select cgroup_path, op, count(*) as n from host_events join containers using (cgroup_id) "
        f"where cgroup_path in ('/{gpu.name}', '/{plain.name}') and duration_ns < 10000000 "
        "or op in ('fork', 'exec', 'exit', 'wakeup') group by all"
    )
    by_path = Counter()
    for row in rows:
        by_path[row["cgroup_path"]] += row["n"]
    assert by_path[f"/{gpu.name}"] > 0
    assert by_path[f"/{plain.name}"] == 0
    counted = recording.sql(
        "select sum(count)::bigint as n from totals join containers using (cgroup_id) "
        f"where cgroup_path = '/{plain.name}' and family = 'host' and function = 'fork'"
    )
    assert counted == [{"n": CHILDREN}]


@contextmanager
def v1_twin(controller: str, cgroup: Cgroup) -> Iterator[Path]:
    """The same path in a version 1 hierarchy, or in version 2 where it has the controller."""
    if not (V1 / controller).is_dir():
        yield cgroup.path
        return
    twin = V1 / controller / cgroup.name
    twin.mkdir()
    try:
        yield twin
    finally:
        for _ in range(200):
            try:
                twin.rmdir()
                break
            except OSError:
                time.sleep(0.02)


def write_first(directory: Path, *choices: tuple[str, str]) -> None:
    """Set the first of these files that exists."""
    name, value = next((n, v) for n, v in choices if (directory / n).exists())
    (directory / name).write_text(value)


def test_a_cgroup_out_of_quota_has_a_row_each_second(cgroup: Cgroup, store: Path) -> None:
    with v1_twin("cpu", cgroup) as twin, record(store, "--events", "host") as recording:
        write_first(twin, ("cpu.cfs_quota_us", "20000"), ("cpu.max", "20000 100000"))
        burner = python(cgroup, BURN, 3)
        (twin / "cgroup.procs").write_text(str(burner.pid))
        # Looked for every few seconds: the recording must go on until it is found.
        rows = recording.wait_for(
            "select duration_ns, attribution from host_events join containers using (cgroup_id) "
            f"where op = 'throttled' and cgroup_path = '/{cgroup.name}'"
        )
        finish(burner)
    assert all(row["duration_ns"] > 0 for row in rows)


HOG = "x = bytearray(1)\nwhile True:\n    x += bytes(1 << 20)\n"


def test_an_oom_kill_belongs_to_the_victim(cgroup: Cgroup, store: Path) -> None:
    with v1_twin("memory", cgroup) as twin, record(store, "--events", "host") as recording:
        limit = str(64 << 20)
        write_first(twin, ("memory.limit_in_bytes", limit), ("memory.max", limit))

        def enter() -> None:
            cgroup.enter()
            (twin / "cgroup.procs").write_text(str(os.getpid()))

        hog = subprocess.Popen([sys.executable, "-c", HOG], preexec_fn=enter)
        assert hog.wait(60) == -9
    rows = recording.sql(
        "select pid, cgroup_path from host_events join containers using (cgroup_id) "
        "where op = 'oom_kill'"
    )
    assert rows == [{"pid": hog.pid, "cgroup_path": f"/{cgroup.name}"}]


def test_every_host_event_is_accounted_for(cgroup: Cgroup, store: Path) -> None:
    with record(store, "--events", "host", "--host-rows", "all") as recording:
        finish(cgroup.popen(["/bin/sh", "-c", SPAWN.format(n=CHILDREN)]))
    rows = recording.sql(
        "select sum(seen - stored - shed - lost - queued)::bigint as off, sum(queued)::bigint as q "
        "from losses where family = 'host'"
    )
    assert rows == [{"off": 0, "q": 0}]
