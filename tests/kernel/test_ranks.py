"""Many ranks that start together, each with a library of tens of thousands of kernels."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.compiler import build_client, build_library
from tests.kernel.conftest import Cgroup, Recording, record

RANKS = 8
KERNELS = 24_000
NAME_BYTES = 288
LAUNCHED = 100


def name(number: int) -> str:
    """A kernel's name, as long as many are."""
    return f"kernel_{number:06}_".ljust(NAME_BYTES - 1, "x")


def say(ranks: list[Any], expected: str) -> None:
    """Let all go on, and wait until each has come as far as this."""
    for rank in ranks:
        rank.stdin.write("\n")
        rank.stdin.flush()
    for rank in ranks:
        assert rank.stdout.readline() == f"{expected}\n"


def helper_cpu_s(recording: Recording) -> float:
    """What the helper has used so far."""
    pid = recording.process.pid
    helper = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
    fields = Path(f"/proc/{helper}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The client and what it needs; the library touches no name, as the real one does not."""
    place = tmp_path_factory.mktemp("ranks")
    functions = ["__cudaRegisterFunction", "cudaLaunchKernel"]
    library = build_library(place / "libcudart.so.12", functions)
    names = place / "names"
    names.write_bytes(b"".join(name(n).encode() + b"\0" for n in range(KERNELS)))
    return [build_client(place / "registers", "registers"), library, names, KERNELS, NAME_BYTES]


@pytest.mark.parametrize("warm", [0, 1], ids=["cold", "warm"])
def test_ranks_that_register_all_their_kernels_at_once_lose_no_name(
    warm: int, command: list[Any], cgroups: Callable[[], Cgroup], store: Path
) -> None:
    with record(store) as recording:
        ranks = [cgroups().popen([*command, warm], stdin=subprocess.PIPE) for _ in range(RANKS)]
        assert {rank.stdout.readline() for rank in ranks} == {"loaded\n"}
        recording.wait_probed(command[1])
        before = helper_cpu_s(recording)
        say(ranks, "registered")
        say(ranks, "launched")
        recording.wait_for(
            f"select 1 from (select count(*) as n from cuda_events) where n = {RANKS * LAUNCHED}"
        )
        used = helper_cpu_s(recording) - before
        for rank in ranks:
            rank.communicate("\n", timeout=60)
    notes = json.loads(recording.sql("select notes from sessions")[0]["notes"])
    assert notes.get("unreadable", 0) == (0 if warm else RANKS * KERNELS)
    assert {key: notes.get(key, 0) for key in ("fact_lost", "names_refused")} == {
        "fact_lost": 0, "names_refused": 0,
    }  # fmt: skip
    assert "names" not in notes.get("passed_over", {})
    wanted = [name(number * (KERNELS // LAUNCHED)) for number in range(LAUNCHED)]
    for rank in ranks:
        rows = recording.sql(
            f"select kernel_name from cuda_events where pid = {rank.pid} order by timestamp_ns"
        )
        assert [row["kernel_name"] for row in rows] == wanted
    print(f"helper: {used:.1f} s for {RANKS * KERNELS} names")
