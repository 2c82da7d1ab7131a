"""Jobs whose ranks stop meeting: which rank is named, and what it costs the others."""

import json
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cotenant import sim
from tests.kernel.conftest import PATIENCE, Cgroup, Recording, command, record, sim_environment

RANKS = 3
STEPS = 37
# Of each job: the rank that breaks, and its switches of the stand-in or options of the workload.
BROKEN: dict[str, tuple[int, dict[str, str], list[str]]] = {
    "never calls": (2, {}, ["--pause-after", str(STEPS), "--resume-on", "never"]),
    "never returns": (1, {"COTENANT_SIM_NCCL_HANG": f"1:{STEPS}"}, []),
    "first call": (0, {"COTENANT_SIM_NCCL_HANG": "0:0"}, []),
}
DELAY_NS = 9_000_000
MET = 211


@dataclass
class Job:
    """The ranks of a training job, each with a truth log, in a cgroup of its own."""

    group: Cgroup
    place: Path
    ranks: list[Any] = field(default_factory=list)

    def start(self, more: Callable[[int], list[str]], **switches: str) -> "Job":
        """Its ranks, with options each, and switches of the stand-in for all."""
        self.place.mkdir()
        self.ranks = [
            self.group.popen(
                sim.command(
                    "train",
                    ["--ranks", str(RANKS), "--rank", str(rank), "--id-file", f"{self.place}/id",
                     "--kernels", "2", *more(rank)],
                ),
                env=sim_environment(
                    self.place / f"{rank}.jsonl", COTENANT_SIM_LOG_SYNC="1",
                    COTENANT_SIM_DEVICE=f"cotenant-{self.group.name}", **switches,
                ),
            )
            for rank in range(RANKS)
        ]  # fmt: skip
        return self

    def end(self, signal: int | None = None) -> None:
        """Wait for its ranks, or end them so."""
        for rank in self.ranks:
            if signal is not None:
                rank.send_signal(signal)
            rank.communicate(timeout=60 * PATIENCE)

    def calls(self, rank: int) -> list[dict[str, Any]]:
        """The collectives that the rank has returned from."""
        lines = (self.place / f"{rank}.jsonl").read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        return [row for row in rows if row["op"] == "nccl" and row["nccl"] == "AllReduce"]


def explained(recording: Recording) -> list[dict[str, Any]]:
    """The findings of the recording, as a program gets them."""
    code, said, complaints = command("explain", "--store", recording.store, "--json")
    assert code == 0, complaints
    return list(json.loads(said)["findings"])


@pytest.fixture
def warm_up(cgroups: Callable[[], Cgroup]) -> Callable[[Recording], None]:
    """Have the libraries of the stand-in probed before a job starts."""

    def warm(recording: Recording) -> None:
        line = sim.command("train", ["--ranks", "1", "--rank", "0", "--id-file", "id"])
        process = cgroups().popen(
            [*line, "--steps", "1"], env=sim_environment(), cwd=recording.store.parent
        )
        process.communicate(timeout=60 * PATIENCE)
        recording.wait_probed("libcuda.so.1", "libnccl.so.2")

    return warm


def test_a_hang_names_the_rank_that_broke_and_no_other(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path, warm_up: Callable[[Recording], None]
) -> None:
    with record(store) as recording:
        warm_up(recording)
        jobs = {}
        for number, (name, (broken, switches, options)) in enumerate(BROKEN.items()):
            jobs[name] = Job(cgroups(), tmp_path / str(number)).start(
                lambda rank, b=broken, o=options: ["--rate", "50", *(o if rank == b else [])],
                **switches,
            )
        recording.wait_for(
            "select 1 from calls_under_way where function = 'cuStreamSynchronize' "
            "and timestamp_ns - began_ns > 6e9 having count(*) = 6",
            seconds=40,
        )
    for job in jobs.values():
        job.end(signal.SIGKILL)
    hangs = [f for f in explained(recording) if f["kind"] == "hung collective"]
    found = {f["culprit"]: f for f in hangs}
    for name, job in jobs.items():
        broken = BROKEN[name][0]
        returned = [len(job.calls(rank)) for rank in range(RANKS)]
        # The truth: the others made one collective more, and returned from it.
        assert [n - returned[broken] for n in returned] == [rank != broken for rank in range(RANKS)]
        finding = found.pop(f"/{job.group.name} rank {broken}")
        assert finding["confidence"] > 0.5
    assert found == {}


def test_a_rank_that_is_late_in_its_calls_is_named_with_what_it_costs(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path, warm_up: Callable[[Recording], None]
) -> None:
    with record(store) as recording:
        warm_up(recording)
        job = Job(cgroups(), tmp_path / "job").start(
            lambda _: ["--steps", str(MET)], COTENANT_SIM_NCCL_DELAY_RANK=f"1:{DELAY_NS}"
        )
        job.end()
    (finding,) = [f for f in explained(recording) if f["kind"] == "straggler rank"]
    assert (finding["culprit"], finding["confidence"]) == (f"/{job.group.name} rank 1", 0.98)
    # The truth: what its calls took longer than those of the others.
    took = [sum(c["t_end"] - c["t_begin"] for c in job.calls(rank)) for rank in range(RANKS)]
    late = took[1] - max(took[0], took[2])
    assert late >= MET * DELAY_NS * 0.9
    assert 0.75 * late <= finding["cost_ns"] <= 1.25 * late
    code, said, _ = command("ask", "--store", store, "late_ranks", "--json")
    assert code == 0
    rows = {row["rank"]: row for row in json.loads(said)["rows"] if row["ranks_seen"] == RANKS}
    assert sorted(rows) == [0, 1, 2]
    assert 0.75 * late <= rows[1]["held_up_ns"] <= 1.25 * late
    assert rows[1]["late_ns"] >= DELAY_NS * 0.75
