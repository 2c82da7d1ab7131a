"""Open files, BPF objects and memory of both processes while tenants come and go."""

import os
import subprocess
import sys
import time
from pathlib import Path

from tests.kernel.conftest import Recording, cgroup_root, record

TENANTS = 1009

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


def still(recording: Recording) -> tuple[int, int, int]:
    """What it holds once that does not change: no file is being read, no library being probed."""
    before = held(recording)
    for _ in range(30):
        time.sleep(2)
        now = held(recording)
        if now[:2] == before[:2]:
            break
        before = now
    return now


def test_a_thousand_tenants_that_came_and_went_leave_it_as_small_as_it_was(store: Path) -> None:
    with record(store) as recording:
        # As many before as after: meanwhile it finds what is installed with the Python of tests.
        come_and_go(TENANTS)
        settled(recording, TENANTS)
        files, kernel, pss = still(recording)
        come_and_go(TENANTS)
        settled(recording, 2 * TENANTS)
        after = still(recording)
    assert after[:2] == (files, kernel)
    assert after[2] / pss < 1.25
