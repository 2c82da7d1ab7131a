"""Questions about many nodes: each finds what was planted in a fleet, and nothing else."""

import importlib.util
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cotenant.query.engine.session import Session
from cotenant.query.findings import stragglers
from cotenant.query.questions.loader import find
from cotenant.store.writer import StoreWriter

START = 1_800_000_000_000_000_000
MS, SECOND = 1_000_000, 1_000_000_000
TURNS, NODES, RANKS = 61, 16, 2
TRAIN, SERVE = 101, 103
PERIOD = 40 * MS
SPAN = {
    "gpu": "GPU-1", "waited_ns": 5 * MS, "closed_by": "wait", "streams": 1, "launches": 1,
    "copies": 0, "copied_bytes": 0, "total_extent": 1.0, "shed": 0, "lost": False,
}  # fmt: skip


def _rows():
    """What a node records whose two ranks have a collective every 40 ms, beside a server."""
    calls = {"comm": "python", "weight": 1, "duration_ns": 9_000, "result": 0}
    nccl, spans, cuda = [], [], []
    for rank in range(RANKS):
        own = calls | {"pid": 7 + rank, "tid": 7 + rank, "cgroup_id": TRAIN, "stream": 5 + rank}
        own |= {"rank": rank, "nranks": RANKS, "comm_hash": 77}
        begun = {"op": "CommInitRank", "api": "ncclCommInitRank", "timestamp_ns": START}
        nccl.append(own | begun)
        for turn in range(1, TURNS + 1):
            at = START + turn * PERIOD
            what = {"op": "AllReduce", "api": "ncclAllReduce", "timestamp_ns": at + rank * 1000}
            nccl.append(own | what)
            times = {"timestamp_ns": at - 4 * MS, "end_ns": at + 20 * MS, "proof_ns": at + MS}
            who = {"cgroup_id": TRAIN, "pid": 7 + rank, "stream": 5 + rank, "collectives": 1}
            spans.append(SPAN | who | times | {"mix": 1})
    for at in range(START, START + TURNS * PERIOD, PERIOD):
        times = {"timestamp_ns": at, "end_ns": at + 2 * MS, "proof_ns": at + MS}
        spans.append(SPAN | {"cgroup_id": SERVE, "pid": 9, "stream": 3, "collectives": 0} | times
                     | {"mix": 2})  # fmt: skip
        launch = {"timestamp_ns": at, "pid": 9, "tid": 9, "cgroup_id": SERVE, "op": "launch"}
        launch |= {"api": "cuLaunchKernel", "kernel_name": "gemm"}
        cuda.append(calls | launch)
    return {"nccl_events": nccl, "spans": spans, "cuda_events": cuda}


def _seconds():
    counts, busy, mixes = [], [], []
    for cgroup in (TRAIN, SERVE):
        for second in range(4):
            at = {"timestamp_ns": START + second * SECOND, "cgroup_id": cgroup}
            count = {"family": "host", "function": "oncpu", "count": 1, "sum_ns": SECOND // 2}
            counts.append(at | count | {"max_ns": 1, "histogram": [1]})
            work = dict.fromkeys(("overlapped_ns", "unproven_ns", "launches", "waits"), 0)
            work |= {"queued_ns": SECOND // 4, "waited_ns": 0, "copied_bytes": 0, "told_ns": START}
            busy.append(at | work | {"gpu": "GPU-1"})
    for mix, cgroup, kernel in ((1, TRAIN, "nccl"), (2, SERVE, "gemm")):
        at = {"timestamp_ns": START, "cgroup_id": cgroup, "mix": mix, "count": 1, "size": 64}
        mixes.append(at | {"kernel_name": kernel})
    return {"totals": counts, "gpu_seconds": busy, "span_mixes": mixes}


@pytest.fixture(scope="module")
def bench():
    path = Path(__file__).parents[4] / "bench" / "fleet.py"
    spec = importlib.util.spec_from_file_location("bench_fleet", path)
    sys.modules["bench_fleet"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def recording(bench, tmp_path_factory):
    root = tmp_path_factory.mktemp("recording") / "store"
    labels = json.dumps({"owner": "ReplicaSet/serve-7d9f"})
    who = [{"cgroup_id": TRAIN, "tenant": "train"}, {"cgroup_id": SERVE, "tenant": "serve"}]
    who = [row | {"container_id": row["tenant"], "labels": labels} for row in who]
    who = [row | {"name": row["tenant"], "node": "one", "boot_id": "b"} for row in who]
    session = {"session_id": "s", "node": "one", "boot_id": "b", "kernel": "6.1", "layers": "auto"}
    session |= {"started_ns": START - SECOND, "ended_ns": START + 9 * SECOND, "wall_offset_ns": 0}
    session |= {"attach_method": "multi", "hierarchy": "v2"}
    with StoreWriter(root, node="one", boot_id="b") as writer:
        writer.replace("containers", pa.Table.from_pylist(who))
        writer.replace("sessions", pa.Table.from_pylist([session]))
        for table, rows in (_rows() | _seconds()).items():
            writer.append(table, pa.Table.from_pylist(rows))
        writer.seal(START)
    return bench.Recording(root)


CLOCKS = {0: MS, 3: -MS, 9: MS, 14: MS}


def _asked(root):
    def asked(question):
        if question == "stragglers":
            return stragglers.find(lambda sql: session.ask(sql).table)
        return session.ask(find(question).render()).rows()

    with Session(root) as session:
        yield asked


@pytest.fixture(scope="module")
def troubled(bench, recording, tmp_path_factory):
    """``troubled(question)``: its rows, of a fleet with a late rank and a slow node."""
    root = tmp_path_factory.mktemp("troubled") / "store"
    planted = bench.Planted(late={1: 5}, slow=frozenset({11}), clocks=CLOCKS)
    bench.fill(recording, root, NODES, planted)
    yield from _asked(root)


@pytest.fixture(scope="module")
def healthy(bench, recording, tmp_path_factory):
    """The same of a fleet with nothing wrong but its clocks."""
    root = tmp_path_factory.mktemp("healthy") / "store"
    bench.fill(recording, root, NODES, bench.Planted(clocks=CLOCKS))
    yield from _asked(root)


def test_a_late_rank_is_found_with_its_node_although_clocks_differ(troubled):
    rows = troubled("late_ranks")
    late = [(r["node"], r["rank"]) for r in rows if r["late_ns"] and r["late_ns"] > MS // 2]
    assert late == [("node-0010", 5)]
    (row,) = [r for r in rows if r["rank"] == 5 and r["node"] == "node-0010"]
    assert row["late_ns"] == pytest.approx(3 * MS, rel=0.05)
    assert row["clock_error_ns"] < MS // 5
    (finding,) = troubled("stragglers")
    assert (finding.nodes, finding.culprit) == (("node-0010",), "slurm/1001 rank 5")
    assert "on node-0010" in finding.title


def test_clocks_that_differ_make_no_rank_late(healthy):
    rows = healthy("late_ranks")
    assert len(rows) == NODES * RANKS
    assert [r for r in rows if abs(r["late_ns"] or 0) > MS // 5] == []
    assert healthy("stragglers") == []


def test_without_anything_that_compares_clocks_nobody_is_called_late(bench, recording, tmp_path):
    """No end of a span tells when a collective was done, and no host how good its clock is."""
    alone = bench.Recording.__new__(bench.Recording)
    alone.__dict__ |= recording.__dict__
    rows = recording.rows["spans"]
    alone.rows = recording.rows | {"spans": rows.filter(pc.equal(rows["collectives"], 0))}
    bench.fill(alone, tmp_path / "store", 8, bench.Planted(late={0: 5}))
    with Session(tmp_path / "store") as session:
        ranks = session.ask(find("late_ranks").render()).rows()
        found = stragglers.find(lambda sql: session.ask(sql).table)
    assert {(r["late_ns"], r["clock_error_ns"]) for r in ranks} == {(None, None)}
    assert found == []


def test_a_slow_node_is_found_with_the_kernel(troubled):
    (row,) = troubled("slow_nodes")
    assert (row["node"], row["kernel_name"], row["nodes"]) == ("node-0011", "gemm", NODES)
    assert row["slowdown"] == pytest.approx(1.7, rel=0.05)


def test_nothing_is_found_where_nothing_is_planted(healthy):
    assert healthy("slow_nodes") == []
    coverage = healthy("node_coverage")
    assert len(coverage) == NODES
    assert {row["silent_ns"] for row in coverage} == {0}


def test_a_job_is_one_over_its_nodes(healthy):
    rows = healthy("job_nodes")
    slurm = [row for row in rows if row["job"].startswith("slurm/")]
    assert {row["job"] for row in slurm} == {"slurm/1000", "slurm/1001"}
    assert {(row["nodes"], row["ranks"], row["gpus"]) for row in slurm} == {(8, RANKS, 1)}
    # Of its spans, which are a little longer than the seconds that are stored beside them.
    assert [row["queued_share"] for row in slurm] == pytest.approx([0.1467] * len(slurm), rel=0.01)
    # A workload is what its pods on several nodes have in common.
    others = {row["job"] for row in rows} - {row["job"] for row in slurm}
    assert others == {f"team-{team}/serve" for team in range(4)}


def test_teams_are_namespaces_and_accounts_over_all_nodes(healthy):
    teams = {row["team"]: row for row in healthy("team_use")}
    assert teams.keys() == {f"team-{team}" for team in range(4)}
    # Eight nodes of the job that the team's account pays for, and its four pods, two beside it.
    assert teams["team-0"]["tenants"] == 1 + 4
    assert {name: row["gpus"] for name, row in teams.items()} == {
        "team-0": 8 + 2, "team-1": 8 + 2, "team-2": 4, "team-3": 4
    }  # fmt: skip
    assert all(0 < row["queued_share"] <= 0.5 for row in teams.values())


def test_tenants_of_a_communicator_over_nodes_are_one_job(tmp_path):
    call = {"timestamp_ns": START, "pid": 1, "tid": 1, "comm": "python", "weight": 1, "nranks": 2}
    call |= {"op": "AllReduce", "api": "ncclAllReduce", "comm_hash": 0xABC, "duration_ns": 1}
    for number, node in enumerate(("a", "b")):
        who = {"cgroup_id": number, "tenant": "train", "name": "train", "container_id": "train"}
        with StoreWriter(tmp_path / "store", node=node, boot_id=node) as writer:
            row = who | {"node": node, "boot_id": node}
            writer.replace("containers", pa.Table.from_pylist([row]))
            rank = call | {"cgroup_id": number, "rank": number}
            writer.append("nccl_events", pa.Table.from_pylist([rank]))
            writer.seal(START)
    with Session(tmp_path / "store") as session:
        rows = session.ask("select tenant, job from jobs order by 1").rows()
    assert [(row["tenant"], row["job"]) for row in rows] == [
        ("train@a", "nccl/abc"),
        ("train@b", "nccl/abc"),
    ]
