"""Storms count whole: what no row stands for is a row of its own second."""

import json
import math
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.compiler import build_client
from tests.kernel.conftest import (
    SIM,
    Cgroup,
    Recording,
    command,
    new_cgroup,
    record,
    sim_environment,
)
from tests.kernel.test_overload import fate, finish, start

pytestmark = pytest.mark.timeout(900)

CALLS = 70_001
ENDLESS = 1_000_000_007
KERNELS, SECONDS = 8, 1024
SHAPES = ("kernel", "kernels", "pair", "graph", "copies")
ENDS = ("ends", "silent", "more", "killed", "exec", "fork", "stopped")
# The function of the rows.
APIS = {
    "kernel": "cuLaunchKernel",
    "kernels": "cudaLaunchKernel",
    "pair": "cuLaunchKernel",
    "graph": "cuGraphLaunch",
    "copies": "cuMemcpyHtoDAsync_v2",
}


@dataclass
class Storm:
    """One case: a tenant, and what it says it did."""

    shape: str
    end: str
    cgroup: Cgroup
    files: list[Path]
    processes: "list[subprocess.Popen[str]]"

    def counts(self) -> dict[str, Any]:
        """Calls and bytes of all its processes; by kernel, and by second."""
        found = [struct.unpack(f"{3 + KERNELS + SECONDS}Q", f.read_bytes()) for f in self.files]
        sums = [sum(each) for each in zip(*found, strict=True)]
        kernels, seconds = sums[3 : 3 + KERNELS], sums[3 + KERNELS :]
        return {
            "begun": sums[0], "done": sums[1], "bytes": sums[2],
            "kernels": kernels, "seconds": seconds,
        }  # fmt: skip

    @property
    def where(self) -> str:
        return f"cgroup_path = '/{self.cgroup.name}'"


def begin(client: Path, cgroup: Cgroup, shape: str, end: str, place: Path) -> Storm:
    calls = {"more": 3 * CALLS, "killed": ENDLESS, "stopped": ENDLESS}.get(end, CALLS)
    files = [place / f"{cgroup.name}-{n}" for n in range(2 if shape == "pair" else 1)]
    what = "kernel" if shape == "pair" else shape
    processes = [
        cgroup.popen([client, file, what, calls, end], env=sim_environment(), stdin=subprocess.PIPE)
        for file in files
    ]
    return Storm(shape, end, cgroup, files, processes)


def lines(storm: Storm, word: str) -> None:
    """Wait until each process has said this."""
    for process in storm.processes:
        assert process.stdout is not None
        said = process.stdout.readline().strip()
        assert said == word, (storm.shape, storm.end, said)


def through(storm: Storm) -> None:
    """Until the storm is over, unless it goes on until the recording stops."""
    lines(storm, "ready")
    if storm.end == "killed":
        time.sleep(0.7)
        for process in storm.processes:
            process.kill()
    elif storm.end == "stopped":
        return
    else:
        if storm.end == "exec":
            lines(storm, "ready")
        lines(storm, "over")
    if storm.end != "silent":
        for process in storm.processes:
            process.wait(timeout=60)


def close(storm: Storm) -> None:
    """End what still runs, and close its pipes."""
    for process in storm.processes:
        process.kill()
        process.communicate(timeout=60)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_client(tmp_path_factory.mktemp("client") / "storms", "storms", "-Wno-all")


CASES = {
    "default": (),
    "little": ("--budget", "1%"),
    "ring": ("--ring-bytes", str(1 << 20), "--budget", "off"),
}


@dataclass
class Recorded:
    recording: Recording
    storms: list[Storm]


@pytest.fixture(scope="module", params=CASES)
def recorded(
    request: pytest.FixtureRequest, client: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Recorded]:
    """All cases in one recording: counts are exact for each cgroup."""
    place = tmp_path_factory.mktemp("storms")
    with ExitStack() as stack:
        storms = []
        with record(place / "store", *CASES[request.param]) as recording:
            warmed = stack.enter_context(new_cgroup())
            for shape in ("kernel", "kernels"):
                first = begin(client, warmed, shape, "ends", place)
                through(first)
                close(first)
            recording.wait_for("select 1 from cuda_events where op = 'launch' limit 1")
            for end in ENDS:
                some = [
                    begin(client, stack.enter_context(new_cgroup()), shape, end, place)
                    for shape in SHAPES
                ]
                storms += some
                for storm in some:
                    through(storm)
            time.sleep(1)
        for storm in storms:
            close(storm)
        yield Recorded(recording, storms)


def summed(recording: Recording, query: str) -> dict[str, dict[str, Any]]:
    """One row for each cgroup, by its path."""
    rows = recording.sql(query)
    found = {row["cgroup_path"]: row for row in rows}
    assert len(found) == len(rows)
    return found


WEIGHTS = """
select c.cgroup_path, sum(e.weight)::bigint as weight,
       sum(e.bytes::hugeint * e.weight)::bigint as bytes,
       count(*) filter (kernel_name <> '[not recorded]') as rows,
       coalesce(sum(e.weight) filter (kernel_name = '[not recorded]'), 0)::bigint as left_out
from cuda_events e join containers c using (cgroup_id)
where e.op in ('launch', 'graph_launch', 'memcpy') and e.api in ({apis}) group by all
"""
# The sentence about weights is true if all that was shed is in them.
ALL_WEIGHTS = """
select c.cgroup_path, sum(e.weight)::bigint as weight
from cuda_events e join containers c using (cgroup_id) group by all
"""
OPERATIONS = """
select c.cgroup_path, sum(t.operations)::bigint as operations
from totals t join containers c using (cgroup_id) where t.function in ({apis}) group by all
"""


def test_weights_are_operations_are_calls(recorded: Recorded) -> None:
    recording = recorded.recording
    apis = ", ".join(f"'{api}'" for api in set(APIS.values()))
    weights = summed(recording, WEIGHTS.format(apis=apis))
    operations = summed(recording, OPERATIONS.format(apis=apis))
    everything = summed(recording, ALL_WEIGHTS)
    wrong, shed = [], 0
    for storm in recorded.storms:
        path, said = f"/{storm.cgroup.name}", storm.counts()
        # Of the runtime's calls those of the driver inside are counted there.
        got, ops = weights[path], operations[path]["operations"]
        what = fate(recording, storm.cgroup)
        shed += what["shed"]
        ended = storm.end not in ("killed", "stopped")
        inside = len(storm.processes) * (storm.end in ("killed", "stopped"))
        sums = (
            got["weight"] == ops,
            ended is False or got["weight"] == said["done"],
            storm.end == "stopped" or said["done"] <= got["weight"] <= said["done"] + inside,
            storm.shape != "copies" or not ended or got["bytes"] == said["bytes"],
            everything[path]["weight"] == what["stored"] + what["shed"],
            what["queued"] == 0 and what["seen"] == what["stored"] + what["shed"] + what["lost"],
        )
        if not all(sums):
            wrong.append(
                (storm.end, storm.shape, sums, got, ops, said["begun"], said["done"], what)
            )
    assert wrong == []
    assert shed > 0


def test_a_second_has_its_own_calls(recorded: Recorded) -> None:
    rows = recorded.recording.sql(
        "select c.cgroup_path, e.timestamp_ns // 1000000000 as second, sum(e.weight)::bigint as n "
        "from cuda_events e join containers c using (cgroup_id) "
        "where e.op in ('launch', 'graph_launch', 'memcpy') group by all"
    )
    # A second is one of the recorder's own, which are longer on a busy machine.
    (longest,) = recorded.recording.sql("select max(timestamp_ns - since_ns) as ns from totals")
    edge = math.ceil(longest["ns"] / 1e9)
    for storm in recorded.storms:
        if storm.end == "stopped":
            continue
        mine = {
            row["second"]: row["n"] for row in rows if row["cgroup_path"] == f"/{storm.cgroup.name}"
        }
        said = {
            s: storm.counts()["seconds"][s % SECONDS]
            for s in range(min(mine) - edge, max(mine) + edge + 1)
        }
        for second in said:
            until = sum(n for at, n in mine.items() if at <= second)
            least = sum(n for at, n in said.items() if at <= second - edge)
            most = sum(n for at, n in said.items() if at <= second + edge) + 2
            assert least <= until <= most, (storm.end, storm.shape, second, mine, said)


def test_kernels_in_turn_have_their_shares(recorded: Recorded) -> None:
    rows = recorded.recording.sql(
        "select c.cgroup_path, e.kernel_name, sum(e.weight)::bigint as n, "
        "sum((e.weight - 1)::double * (e.weight - 1)) as squares "
        "from cuda_events e join containers c using (cgroup_id) "
        "where e.op = 'launch' and kernel_name like 'storm%' group by all"
    )
    for storm in recorded.storms:
        if storm.shape != "kernels":
            continue
        mine = [row for row in rows if row["cgroup_path"] == f"/{storm.cgroup.name}"]
        assert len(mine) == KERNELS, (storm.end, mine)
        share = sum(row["n"] for row in mine) / KERNELS
        error = 4 * math.sqrt(sum(row["squares"] for row in mine) / KERNELS) + 8
        for row in mine:
            assert abs(row["n"] - share) <= error, (storm.end, row, share, error)


def asked(recording: Recording, *words: str) -> list[dict[str, Any]]:
    code, said, complaints = command("ask", *words, "--store", recording.store, "--json")
    assert code == 0, complaints
    found = json.loads(said)
    rows: list[dict[str, Any]] = found["rows"] if isinstance(found, dict) else found
    return rows


def test_questions_add_up_to_the_calls(recorded: Recorded) -> None:
    recording = recorded.recording
    for storm in recorded.storms[::4]:
        if storm.end in ("killed", "stopped"):
            continue
        done, tenant = storm.counts()["done"], f"/{storm.cgroup.name}"
        if storm.shape == "copies":
            rows = asked(recording, "copies", "--tenant", tenant)
            assert sum(row["copies"] for row in rows) == done
            assert sum(row["total_bytes"] for row in rows) == storm.counts()["bytes"]
            continue
        rows = asked(recording, "launch_rate", "--tenant", tenant)
        assert sum(row["launches"] for row in rows) == done
        rows = asked(recording, "top_kernels", "--tenant", tenant)
        launches = [row for row in rows if row["kernel_name"][:4] in ("stor", "[not", "[gra")]
        (others,) = recording.sql(
            "select coalesce(sum(weight), 0)::bigint as n from cuda_events join containers "
            f"using (cgroup_id) where {storm.where} and kernel_name = '[not recorded]' "
            "and op not in ('launch', 'graph_launch')"
        )
        assert sum(row["launches"] for row in launches) == done + others["n"], rows


def test_a_burst_after_quiet_seconds_is_recorded_whole(
    client: Path, cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    burst, before = cgroups(), cgroups()
    with record(store) as recording:
        finish(start(before, "--steps", "3"))
        recording.wait_for("select 1 from cuda_events where op = 'launch' limit 1")
        words = ["launch", "--api", "driver", "--steps", "200000", "--pause-after", "3"]
        go = tmp_path / "go"
        process = burst.popen([SIM / "workload", *words, "--resume-on", go], env=sim_environment())
        time.sleep(10)
        go.touch()
        process.communicate(timeout=120)
    (row,) = recording.sql(
        "select count(*) as rows, sum(weight)::bigint as weight from cuda_events join containers "
        f"using (cgroup_id) where op = 'launch' and cgroup_path = '/{burst.name}'"
    )
    assert row == {"rows": 200_000, "weight": 200_000}
