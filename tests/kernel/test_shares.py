"""Shares of pairs on a GPU against the device's own account: at once, and taking turns."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from tests.kernel.conftest import Cgroup, record
from tests.kernel.script import WAIT_BY, Script, warm
from tests.kernel.test_gpu_use import PLAYER

SECONDS = float(os.environ.get("COTENANT_RECORDED_S", "10"))
MS = 1_000_000
MODELS = {
    "at once": {"COTENANT_SIM_SLOWDOWN": "1.5"},
    "turns": {"COTENANT_SIM_SLICE_US": "2000"},
}
# As in test_gpu_use: kernel, its time alone, launches in a step, the pause; how it waits.
LARGE = ("gemm", 20 * MS, 1, 0.03, 1, "stream")
STEADY = ("conv", 4 * MS, 5, 0.005, 1, "event")
BURSTS = ("attention", 6 * MS, 5, 0.1, 1, "copy")
HALF = ("decode", 4 * MS, 1, 0.004, 1, "stream")
SMALL = ("touch", 0.5 * MS, 2, 0.02, 1, "context")
PAIRS = [(LARGE, HALF), (LARGE, SMALL), (STEADY, BURSTS), (BURSTS, SMALL)]


def account(log: Path) -> int:
    """What the device counted for a process."""
    lines = map(json.loads, log.read_text().splitlines())
    (share,) = (line["share_ns"] for line in lines if line["op"] == "share")
    return share


@pytest.mark.parametrize("model", MODELS)
def test_shares_of_a_pair_are_what_the_device_counted(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path, model: str
) -> None:
    players: list[tuple[int, Cgroup, Path, Script]] = []
    with record(store) as recording:
        warm(recording, cgroups())
        for number, pair in enumerate(PAIRS):
            for kernel, work, times, pause, every, style in pair:
                group, log = cgroups(), tmp_path / f"{len(players)}.jsonl"
                script = Script(
                    group,
                    WAIT_BY + PLAYER.format(values=(kernel, times, pause, every, style, SECONDS)),
                    COTENANT_SIM_DEVICE=f"{tmp_path}/gpu{number}-",
                    COTENANT_SIM_UUIDS=f"GPU-{number:032x}",
                    COTENANT_SIM_KERNEL_NS=f"{kernel}={round(work)}",
                    COTENANT_SIM_INIT_MS="0",
                    COTENANT_SIM_LOG=str(log),
                    COTENANT_SIM_LOG_SHARE="1",
                    **MODELS[model],
                )
                players.append((number, group, log, script))
        for *_, script in players:
            script.end()
    with Session(store) as session:
        rows = session.ask(find("gpu_use").render()).rows()
    found: dict[str, dict[str, Any]] = {row["tenant"]: row for row in rows}
    errors = []
    for number, group, log, _ in players:
        row = found[f"/{group.name}"]
        true = account(log) / row["time_ns"]
        errors.append(row["share"] - true)
        print(f"{number}: {row['share']:.4f}, truly {true:.4f} [{row['source']}]")
    assert max(map(abs, errors)) <= 0.02
