"""Looking at what is being recorded: live, and without harm to the recording."""

import json
import threading
from pathlib import Path

from tests.kernel.conftest import SIM, Cgroup, record, sim_environment
from tests.serving import Served, serving

STEPS = 211

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
