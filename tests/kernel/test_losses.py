"""The books are checked: an event that vanishes without being counted is told."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.kernel.conftest import SIM, Cgroup, Recording, record, sim_environment

# A recorder whose drain throws one batch away and tells nobody.
THIEF = """
import sys
from cotenant.agent.recorder.ingest import drain
from cotenant.views.cli import main

take = drain.Drain.take

def steal(self):
    facts, batches = take(self)
    kept = [(c, b) for c, b in batches if c.family != "cuda"]
    # The one call that the recorder tries itself with is nobody's loss.
    stolen = [pair for pair in batches if pair[0].family == "cuda" and pair[1].rows > 1]
    if stolen and not steal.done:
        steal.done = True
        return facts, kept
    return facts, batches

steal.done = False
drain.Drain.take = steal
sys.exit(main(sys.argv[1:]))
"""


def launch(cgroup: Cgroup, steps: int) -> None:
    words = [SIM / "workload", "launch", "--api", "driver", "--steps", str(steps)]
    process = cgroup.popen(words, env=sim_environment(), stderr=subprocess.PIPE)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


def warm(recording: Recording, cgroup: Cgroup) -> None:
    """Have the library probed before it counts."""
    for _ in range(20):
        launch(cgroup, 3)
        if recording.sql("select 1 as seen from cuda_events limit 1"):
            return
        time.sleep(0.5)
    raise AssertionError("no launch is ever seen")


def test_a_hidden_drop_does_not_go_unnoticed(cgroup: Cgroup, store: Path, tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with errors.open("w") as stream:
        thief = subprocess.Popen(
            [sys.executable, "-c", THIEF, "record", "--store", str(store), "--quiet"],
            stderr=stream,
            env=os.environ,
        )
    deadline = time.monotonic() + 60
    while not errors.read_text().startswith("recording"):
        assert thief.poll() is None, errors.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for _ in range(4):
        launch(cgroup, 211)
        time.sleep(1)
    thief.send_signal(signal.SIGINT)
    assert thief.wait(60) == 0
    assert "events are unaccounted for" in errors.read_text()
    recording = Recording(store, thief, errors, stopped=True)
    (row,) = recording.sql("select notes from sessions")
    assert sum(json.loads(row["notes"])["imbalance"].values()) > 0
    (losses,) = recording.sql("select sum(queued) as queued from losses where family = 'cuda'")
    assert losses["queued"] > 0


def test_every_window_adds_up(cgroup: Cgroup, store: Path) -> None:
    with record(store) as recording:
        warm(recording, cgroup)
        for _ in range(3):
            launch(cgroup, 1_009)
            time.sleep(0.7)
    off = recording.sql("select * from losses where seen <> stored + shed + lost + queued")
    assert off == []
    (sums,) = recording.sql(
        "select sum(seen) as seen, sum(stored) as stored, sum(queued) as queued from losses "
        f"join containers using (cgroup_id) where cgroup_path = '/{cgroup.name}' "
        "and family = 'cuda'"
    )
    (rows,) = recording.sql(
        "select count(*) as n from cuda_events join containers using (cgroup_id) "
        f"where cgroup_path = '/{cgroup.name}'"
    )
    assert sums["seen"] == sums["stored"] == rows["n"]
    assert sums["queued"] == 0
