"""Eight nodes in one store that differ: other rows, other ids, older and newer recordings."""

import importlib.util
import math
import sys
from pathlib import Path

import pyarrow as pa

from cotenant.fleet.asking import open_fleet
from cotenant.query.engine.session import QueryLimits
from cotenant.schema import TABLES
from cotenant.store.segment import conform

ROOT = Path(__file__).parents[1]
NODES = 8
DROPPED = 11  # Each node lacks every eleventh row, another one each.
JOB = "ml/train"
SPANS = 23  # Of a kind that all nodes have, and one is slow at.


def bench_fleet():
    """The generator of fleets, a program of its own."""
    path = ROOT / "bench" / "fleet.py"
    spec = importlib.util.spec_from_file_location("bench_fleet", path)
    if spec.name not in sys.modules:
        sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[spec.name]


def fill(root):
    """Nodes that differ in what they recorded."""
    bench = bench_fleet()
    golden = min((ROOT / "tests/data/stores").iterdir())
    for number in range(NODES):
        recording = bench.Recording(golden)
        recording.rows = {name: _some(name, rows, number) for name, rows in recording.rows.items()}
        # One tenant with all kinds of calls is on every node.
        recording.job_cgroup = {name: cgroup for cgroup, name in recording.tenants().items()}[JOB]
        recording.rows["spans"] = _spans(recording.rows)
        recording.rows["gpu_seconds"] = _seconds(recording, number)
        if number % 2:
            recording.rows["cpu_contention"] = _contention(recording.rows, number)
        bench.Node(recording, number, bench.Planted(slow=frozenset({5}))).write(root, 2)


def _made(table, rows):
    return conform(TABLES[table], pa.Table.from_pylist(rows))


def _some(name, rows, number):
    if TABLES[name].snapshot or TABLES[name].holds or rows.num_rows < DROPPED:
        return rows
    return rows.filter(pa.array([row % DROPPED != number for row in range(rows.num_rows)]))


def _spans(rows):
    """Those of the recording, and equal ones, 2 ms each."""
    cgroup, at_ns = (rows["cuda_events"][name][0].as_py() for name in ("cgroup_id", "timestamp_ns"))
    span = {"cgroup_id": cgroup, "pid": 9, "stream": 3, "gpu": "GPU-1", "waited_ns": 1_000_000}
    span |= {"closed_by": "wait", "streams": 1, "launches": 1, "copies": 0, "copied_bytes": 0}
    span |= {"collectives": 0, "total_extent": 1.0, "shed": 0, "lost": False, "mix": 7}
    equal = [span | {"timestamp_ns": t, "end_ns": t + 2_000_000, "proof_ns": t + 1_000_000}
             for t in range(at_ns, at_ns + SPANS * 10_000_000, 10_000_000)]  # fmt: skip
    made = _made("spans", equal)
    return pa.concat_tables([made, *([rows["spans"]] if "spans" in rows else [])])


def _seconds(recording, number):
    began_ns = recording.rows["cuda_events"]["timestamp_ns"][0].as_py()
    none = dict.fromkeys(("overlapped_ns", "unproven_ns", "waits", "waited_ns", "copied_bytes"), 0)
    return _made("gpu_seconds", [
        none | {"timestamp_ns": began_ns, "cgroup_id": cgroup, "gpu": "GPU-1", "told_ns": began_ns}
        | {"queued_ns": 100_003 * (number + place + 1), "launches": place}
        for place, cgroup in enumerate(sorted(recording.tenants()))
    ])  # fmt: skip


def _contention(rows, number):
    cgroups = rows["containers"]["cgroup_id"].to_pylist()
    began_ns = rows["host_events"]["timestamp_ns"][0].as_py()
    found = [
        {"timestamp_ns": began_ns, "cgroup_id": cgroup, "peer_cgroup_id": peer}
        | {"waited_ns": 1009 * number + place}
        for place, (cgroup, peer) in enumerate(zip(cgroups, [*cgroups[1:], None], strict=True))
    ]
    return _made("cpu_contention", found)


def same(one, other):
    """Whether integers and text are equal, and floats to 1e-9."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def opened(store, runner, told=lambda *_: None, **window):
    """The fleet, to be asked node by node."""
    everything = {"nodes": (), "from_ns": None, "to_ns": None, "limits": QueryLimits()}
    return open_fleet(store, str(store), runner, told, window=everything | window)
