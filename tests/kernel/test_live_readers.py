"""Readers of a store that is being written: they see what was sealed and harm no recording."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.kernel.conftest import SIM, Cgroup, record, sim_environment
from tests.kernel.test_overload import finish, start, warm
from tests.serving import Served, serving

STEPS = 211
READERS = 3
LAUNCHES = 101

RUNAWAY = (
    "SELECT count(*) FROM range(100000000) a, range(100000000) b",
    "SELECT * FROM range(300000000) t(r) ORDER BY hash(r)",
)
HOSTILE = (
    "COPY cuda_events TO '/tmp/stolen.csv'",
    "ATTACH '/tmp/other.db' AS other",
    "SELECT * FROM read_text('/etc/passwd')",
    "SET memory_limit = '100GB'",
)

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


def _attack(served: Served, refused: list[int], stop: threading.Event) -> None:
    """Hostile requests, one after the other, for as long as the recording runs."""
    refused += [served.sql(sql).status for sql in RUNAWAY]
    while True:
        for sql in HOSTILE:
            refused.append(served.sql(sql).status)
            refused.append(served.request("/api/status", token=None).status)
            refused.append(served.request("/api/status", headers={"Host": "evil.example"}).status)
            refused.append(served.request("/../../etc/passwd").status)
            if stop.is_set() and len(refused) >= 100:
                return


def test_a_hundred_hostile_requests_cost_the_recorder_nothing(store: Path, cgroup: Cgroup) -> None:
    refused: list[int] = []
    stop = threading.Event()
    with record(store) as recording, serving(store) as served:
        attacker = threading.Thread(target=_attack, args=(served, refused, stop))
        attacker.start()
        client = cgroup.popen(
            [SIM / "workload", "--api", "driver", "--steps", STEPS], env=sim_environment()
        )
        out, _ = client.communicate(timeout=120)
        seen = recording.wait_for("SELECT 1 FROM cuda_events HAVING count(*) > 0")
        stop.set()
        attacker.join(250)
        assert not attacker.is_alive()
        status = served.request("/api/status")
        assert served.alive()
    assert seen
    assert len(refused) >= 100
    assert all(code in (400, 401, 403, 404) for code in refused)
    assert status.json["state"] == "live"
    launches = sum(json.loads(out)["launches"].values())
    mine = f"JOIN containers USING (cgroup_id) WHERE kernel_cgroup_id = {cgroup.id}"
    counted = recording.sql(f"SELECT count(*) AS n FROM cuda_events {mine} AND op = 'launch'")
    assert counted == [{"n": launches}]
    lost = recording.sql(f"SELECT sum(lost) AS lost, sum(shed) AS shed FROM losses {mine}")
    assert lost == [{"lost": 0, "shed": 0}]


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
