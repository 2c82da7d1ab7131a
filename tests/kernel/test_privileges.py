"""What a recording can still do once it runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant.confine.user import RecorderUser
from tests.kernel.conftest import Cgroup, need, record
from tests.kernel.test_overload import warm

PTRACE, DAC_READ_SEARCH, SYS_ADMIN, NICE, PERFMON, BPF, CHECKPOINT = 19, 2, 21, 23, 38, 39, 40


def status(pid: int, tid: int | None = None) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/task/{tid or pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def capabilities(about: dict[str, str]) -> set[int]:
    bits = int(about["CapEff"], 16) | int(about["CapPrm"], 16) | int(about["CapBnd"], 16)
    return {number for number in range(64) if bits >> number & 1}


def test_the_recorder_has_no_capability_and_few_system_calls(cgroup: Cgroup, store: Path) -> None:
    with record(store, "--quiet") as recording:
        warm(recording, cgroup)
        pid = recording.process.pid
        ours = [
            int(task.name)
            for task in Path(f"/proc/{pid}/task").iterdir()
            # A memory allocator's own thread was there before us.
            if not (task / "comm").read_text().startswith("jemalloc")
        ]
        assert len(ours) > 1
        for tid in ours:
            about = status(pid, tid)
            assert capabilities(about) == set()
            assert (about["NoNewPrivs"], about["Seccomp"]) == ("1", "2")
        user = RecorderUser.chosen(None)
        for task in Path(f"/proc/{pid}/task").iterdir():
            about = status(pid, int(task.name))
            assert about["Uid"].split() == [str(user.uid)] * 4
            assert about["Gid"].split() == [str(user.gid)] * 4
            assert about["Groups"] == ""


@pytest.mark.parametrize("attach", ["session", "multi"])
def test_the_helper_keeps_only_what_probing_takes(attach: str, cgroup: Cgroup, store: Path) -> None:
    need(attach)
    with record(store, "--quiet", "--attach", attach) as recording:
        warm(recording, cgroup)
        about = status(recording.helper())
        assert capabilities(about) == {
            DAC_READ_SEARCH, PTRACE, NICE, PERFMON, BPF, CHECKPOINT,
        }  # fmt: skip
        assert (about["NoNewPrivs"], about["Seccomp"]) == ("1", "2")


def round_robin_is_allowed() -> bool:
    """Not in every cgroup of version 1."""
    allowed = "import os; os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))"
    return not subprocess.run([sys.executable, "-c", allowed], stderr=subprocess.DEVNULL).returncode


def test_the_helper_goes_before_others_and_says_so(cgroup: Cgroup, store: Path) -> None:
    with record(store, "--quiet") as recording:
        helper = recording.helper()
        threads = [int(task.name) for task in Path(f"/proc/{helper}/task").iterdir()]
        found = {(os.sched_getscheduler(t), os.getpriority(os.PRIO_PROCESS, t)) for t in threads}
    allowed = round_robin_is_allowed()
    assert found == {(os.SCHED_RR, 0) if allowed else (os.SCHED_OTHER, -10)}
    notes = json.loads(recording.sql("select notes from sessions")[0]["notes"])
    assert notes["helper_priority"] == ("round robin" if allowed else "nice -10")
