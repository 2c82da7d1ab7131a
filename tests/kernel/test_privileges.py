"""What a recording can still do once it runs."""

from pathlib import Path

import pytest

from tests.kernel.conftest import Cgroup, need, record
from tests.kernel.test_overload import warm

PTRACE, DAC_READ_SEARCH, SYS_ADMIN, PERFMON, BPF, CHECKPOINT = 19, 2, 21, 38, 39, 40


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


@pytest.mark.parametrize("attach", ["session", "multi"])
def test_the_helper_keeps_only_what_probing_takes(attach: str, cgroup: Cgroup, store: Path) -> None:
    need(attach)
    with record(store, "--quiet", "--attach", attach) as recording:
        warm(recording, cgroup)
        about = status(recording.helper())
        assert capabilities(about) == {DAC_READ_SEARCH, PTRACE, PERFMON, BPF, CHECKPOINT}
        assert (about["NoNewPrivs"], about["Seccomp"]) == ("1", "2")
