"""Looking while it records, and staying small while tenants come and go."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.kernel.conftest import Cgroup, Recording, cgroup_root, record
from tests.kernel.test_overload import finish, start, warm

READERS = 3
LAUNCHES = 101
TENANTS = 1009

# Totals of a window are sealed one cycle after they are read: the rows of before are there, too.
READER = """
import json, sys
from cotenant.query.engine.session import Session
store, path, ended_ns = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Session(store) as session:
    while True:
        (row,) = session.ask(
            "select (select max(timestamp_ns) from totals) as told, (select count(*) from "
            "cuda_events join containers using (cgroup_id) where op = 'launch' "
            f"and cgroup_path = '{path}') as rows"
        ).rows()
        if (row["told"] or 0) > ended_ns:
            break
print(row["rows"])
"""

# Each tenant lives for one process, which runs on a CPU and is seen by the kernel's probes.
COME_AND_GO = """
import os, sys
root, times = sys.argv[1], int(sys.argv[2])
for number in range(times):
    group = f"{root}/cotenant-test-{os.getpid()}-{number}"
    os.mkdir(group)
    inside, outside = os.pipe()
    child = os.fork()
    if not child:
        os.close(outside)
        os.read(inside, 1)
        os._exit(0)
    with open(f"{group}/cgroup.procs", "w") as procs:
        procs.write(str(child))
    os.close(inside), os.close(outside)
    os.waitpid(child, 0)
    for _ in range(1000):
        try:
            os.rmdir(group)
            break
        except OSError:
            os.sched_yield()
"""


def test_what_ended_before_a_window_was_told_is_seen_by_every_reader(
    cgroups: Callable[[], Cgroup], store: Path
) -> None:
    tenant, before = cgroups(), cgroups()
    with record(store) as recording:
        warm(recording, before)
        finish(start(tenant, "--steps", str(LAUNCHES)))
        ended_ns = str(time.time_ns())
        words = [sys.executable, "-c", READER, str(store), f"/{tenant.name}", ended_ns]
        readers = [
            subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(READERS)
        ]
        assert [int(reader.communicate(timeout=60)[0]) for reader in readers] == [LAUNCHES] * 3


def held(recording: Recording) -> tuple[int, int, int]:
    """Of both processes: open files, those that are BPF maps or links, and PSS in kB."""
    task = Path(f"/proc/{recording.process.pid}/task")
    children = [int(word) for t in task.iterdir() for word in (t / "children").read_text().split()]
    files, kernel, pss = 0, 0, 0
    for pid in (recording.process.pid, *children):
        names = [os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir()]
        files += len(names)
        kernel += sum("bpf" in name for name in names)
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        pss += next(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))
    return files, kernel, pss


def come_and_go(times: int) -> None:
    words = [sys.executable, "-c", COME_AND_GO, str(cgroup_root()), str(times)]
    subprocess.run(words, check=True, timeout=120)


def settled(recording: Recording, count: int) -> None:
    """Until as many cgroups of ours were seen to go."""
    recording.wait_for(
        "select 1 as all from containers where cgroup_path like '/cotenant-test-%' "
        f"and removed_ns is not null having count(*) >= {count}",
        seconds=60,
    )


def test_a_thousand_tenants_that_came_and_went_leave_it_as_small_as_it_was(store: Path) -> None:
    with record(store) as recording:
        come_and_go(101)
        settled(recording, 101)
        files, kernel, pss = held(recording)
        come_and_go(TENANTS)
        settled(recording, 101 + TENANTS)
        after = held(recording)
    assert after[:2] == (files, kernel)
    assert after[2] / pss < 1.25
