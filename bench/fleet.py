"""A store of many nodes, made of a recording of one, with truths that are planted in it.

    python bench/fleet.py RECORDING [--nodes 1000] [--seconds 4] [--into DIRECTORY]

Each node gets the recording with ids of its own: cgroups, GPUs, boots. Its tenant that has
collectives becomes a Slurm job over eight nodes with one communicator, others become pods of one of
four namespaces. So that no two nodes are the same, calls and ends of spans move by up to 50 us, and
all work of a node takes up to 3 % more or less.

Prints what it takes to open the store, to count its containers and to read one node of it, and what
each question about a fleet takes and finds: with truths planted, and with none. With ``--into``
the two stores stay, as ``planted`` and ``nothing_planted``, and are not made again.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from cotenant.schema import TABLES
from cotenant.store.manifest import current_segments, read_manifest
from cotenant.store.segment import conform
from cotenant.store.writer import StoreWriter

JOB_NODES: Final = 8
TEAMS: Final = 4
LATE_NS: Final = 500_000  # Later than this is found to be late.
QUIET: Final = ("job_nodes", "team_use", "node_coverage")
_NOBODY: Final = frozenset({"host", "kernel", "unknown"})
_MASK: Final = (1 << 63) - 1
_JITTER_NS: Final = 50_000
_SPREAD: Final = 0.03
# Times by the clock of the host; rows of whole seconds stay where they are.
_TIMES: Final = frozenset(
    {
        "timestamp_ns",
        "end_ns",
        "proof_ns",
        "from_ns",
        "to_ns",
        "began_ns",
        "started_ns",
        "ended_ns",
        "created_ns",
        "named_ns",
        "removed_ns",
        "spans_until_ns",
        "asked_ns",
    }
)
_BY_SECOND: Final = frozenset(
    {"rollups", "gpu_seconds", "gpu_overlaps", "cpu_contention", "totals",
     "rollup_minutes", "gpu_minutes", "gpu_overlap_minutes"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Planted:
    """What is wrong with a fleet."""

    late: Mapping[int, int] = field(default_factory=dict)  # By job, the rank that is late.
    late_ns: int = 3_000_000
    slow: frozenset[int] = frozenset()  # Nodes whose GPU work takes longer.
    factor: float = 1.7
    clocks: Mapping[int, int] = field(default_factory=dict)  # By node, how far its clock is off.


def node_name(number: int) -> str:
    """The node of a number."""
    return f"node-{number:04}"


class Recording:
    """The rows of one recorded node, by table; of the first seconds, if so many are given."""

    def __init__(self, store: Path, seconds: float | None = None) -> None:
        self.rows: dict[str, Any] = {}
        for segment in current_segments(store):
            rows = conform(TABLES[segment.table], pq.ParquetFile(store / segment.path).read())
            self.rows.setdefault(segment.table, []).append(rows)
        self.rows = {name: pa.concat_tables(parts) for name, parts in self.rows.items()}
        if seconds is not None:
            self._cut(seconds)
        columns = ["pid", "rank", "cgroup_id"]
        calls = (
            self.rows["nccl_events"].select(columns).to_pylist()
            if "nccl_events" in self.rows
            else []
        )
        self.rank_of = {row["pid"]: row["rank"] for row in calls if row["rank"] is not None}
        self.job_cgroup = calls[0]["cgroup_id"] if calls else None
        self.ranks = len(set(self.rank_of.values()))

    def _cut(self, seconds: float) -> None:
        began_ns = pc.min(self.rows["nccl_events"].column("timestamp_ns")).as_py()
        for name, rows in self.rows.items():
            if not TABLES[name].snapshot and not TABLES[name].holds:
                early = pc.less(rows.column("timestamp_ns"), began_ns + round(seconds * 1e9))
                self.rows[name] = rows.filter(early)

    def tenants(self) -> dict[int, str]:
        """Those with GPU calls, by cgroup."""
        calls = self.rows["cuda_events" if "cuda_events" in self.rows else "rollup_minutes"]
        used = set(calls.column("cgroup_id").unique().to_pylist())
        rows = self.rows["containers"].select(["cgroup_id", "tenant"]).to_pylist()
        used -= {row["cgroup_id"] for row in rows if row["tenant"] in _NOBODY}
        return {row["cgroup_id"]: row["tenant"] for row in rows if row["cgroup_id"] in used}


class Node:
    """One node of the fleet: the recording with ids, clock and troubles of its own."""

    def __init__(self, recording: Recording, number: int, planted: Planted) -> None:
        self.recording, self.number, self.planted = recording, number, planted
        self.name = node_name(number)
        self.job, self.place = divmod(number, JOB_NODES)
        self.rng = np.random.default_rng(number)
        self.factor = 1 + self.rng.uniform(-_SPREAD, _SPREAD)
        if number in planted.slow:
            self.factor *= planted.factor
        self.clock_ns = planted.clocks.get(number, 0)
        self.salt = int(self.rng.integers(1, 1 << 62))

    def rank(self, rank: int) -> int:
        """A rank of the recording, in the job."""
        return self.place * self.recording.ranks + rank

    def early_pids(self) -> list[int]:
        """Processes that have to wait for the late rank of their job."""
        late = self.planted.late.get(self.job)
        known = self.recording.rank_of.items()
        return [pid for pid, rank in known if late is not None and self.rank(rank) != late]

    def table(self, name: str) -> Any:
        """The rows of this table, as this node would have recorded them."""
        rows = self.recording.rows[name]
        columns = {c: rows.column(c) for c in rows.column_names}
        for column, values in columns.items():
            columns[column] = self._column(name, column, values)
        if name in ("nccl_events", "spans"):
            self._delay(name, columns)
        if name == "containers":
            self._rename(columns)
        if name == "nccl_events":
            self._join(columns)
        return pa.table(columns)

    def _column(self, table: str, column: str, values: Any) -> Any:
        if column.endswith("cgroup_id") and column != "kernel_cgroup_id":
            return pc.bit_wise_xor(values, pa.scalar(self.salt & _MASK, pa.int64()))
        if column in _TIMES and table not in _BY_SECOND and self.clock_ns:
            return pc.add(values, self.clock_ns)
        if column == "gpu" and pa.types.is_dictionary(values.type):
            return pc.binary_join_element_wise(
                values.cast(pa.string()), f"{self.number:04}", "-", null_handling="emit_null"
            )
        if column in ("node", "boot_id", "session_id"):
            return pa.array([self.name if column == "node" else f"{column}-{self.name}"]
                            * len(values))  # fmt: skip
        return values

    def _delay(self, name: str, columns: dict[str, Any]) -> None:
        """Let work take as long as it does here, and let others come before the late rank."""
        count = len(columns["pid"])
        early = np.isin(columns["pid"].to_numpy(), self.early_pids())
        jitter = self.rng.integers(-_JITTER_NS, _JITTER_NS, count)
        begins = columns["timestamp_ns"].to_numpy().copy()
        if name == "nccl_events":
            begins += jitter - np.where(early, self.planted.late_ns, 0)
            columns["timestamp_ns"] = pa.array(begins)
            return
        together = columns["collectives"].to_numpy() > 0
        ends = columns["end_ns"].to_numpy()
        alone = begins + ((ends - begins) * self.factor).astype(np.int64)
        columns["end_ns"] = pa.array(np.where(together, ends + jitter // 2, alone))
        begins -= np.where(early & together, self.planted.late_ns, 0) + together * _JITTER_NS
        columns["timestamp_ns"] = pa.array(begins)

    def _join(self, columns: dict[str, Any]) -> None:
        """One communicator for all nodes of the job."""
        columns["comm_hash"] = pc.bit_wise_xor(columns["comm_hash"], self.job << 20)
        columns["rank"] = pc.add(columns["rank"], self.rank(0)).cast(pa.int32())
        columns["nranks"] = pc.multiply(columns["nranks"], JOB_NODES).cast(pa.int32())

    def _rename(self, columns: dict[str, Any]) -> None:
        """The job of Slurm, and pods."""
        tenants, job = self.recording.tenants(), self.recording.job_cgroup
        rows = pa.table(columns).to_pylist()
        for row, was in zip(rows, self.recording.rows["containers"].to_pylist(), strict=True):
            row["container_id"] = f"{row['container_id']}-{self.number}"
            if was["cgroup_id"] == job:
                row |= {"tenant": f"slurm/{1000 + self.job}", "slurm_job": str(1000 + self.job)}
                row |= {"slurm_account": f"team-{self.job % TEAMS}", "scope": "fleet", "name": None}
            elif was["cgroup_id"] in tenants:
                place = {"namespace": f"team-{self.number % TEAMS}",
                         "pod": f"{was['tenant']}-{self.number}"}  # fmt: skip
                row |= place | {"tenant": f"{place['namespace']}/{place['pod']}", "scope": "fleet"}
        columns |= {name: [row[name] for row in rows] for name in columns}

    @property
    def is_well(self) -> bool:
        """Whether nothing is planted here."""
        late = self.job in self.planted.late
        return not late and self.number not in self.planted.slow and not self.clock_ns

    def write(self, root: Path, parts: int) -> None:
        """Into the store, as so many segments of each table."""
        with StoreWriter(root, node=self.name, boot_id=f"boot_id-{self.name}") as writer:
            tables = {name: self.table(name) for name in self.recording.rows}
            for name in [name for name in tables if TABLES[name].snapshot]:
                writer.replace(name, tables.pop(name))
            for part in range(parts):
                for name, rows in tables.items():
                    first, last = (len(rows) * at // parts for at in (part, part + 1))
                    writer.append(name, rows.slice(first, last - first))
                writer.seal(1_800_000_000_000_000_000 + part)


def fill(
    recording: Recording,
    root: Path,
    nodes: int,
    planted: Planted | None = None,
    *,
    parts: int = 1,
    same: tuple[Path, Planted] | None = None,
) -> None:
    """Make a store of so many nodes out of a recording of one.

    Nodes with nothing planted are ``same`` as in another store, and their files are linked.
    """
    for number in range(nodes):
        node = Node(recording, number, planted or Planted())
        if same and node.is_well and Node(recording, number, same[1]).is_well:
            _link(same[0], root, node.name)
        else:
            node.write(root, parts)


def _link(store: Path, root: Path, node: str) -> None:
    manifest = f"manifest/{node}.json"
    found = read_manifest(store / manifest)
    paths = [segment.path for segment in found.segments] if found else []
    for path in ("store.json", manifest, *paths):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).unlink(missing_ok=True)
        (root / path).hardlink_to(store / path)


def _timed(root: Path, sql: str, **options: Any) -> dict[str, Any]:
    """What it takes to open the store and ask, in a session of its own."""
    began, cpu = time.monotonic(), time.process_time()
    with Session(root, **options) as session:
        opened = {"open_s": time.monotonic() - began, "open_cpu_s": time.process_time() - cpu}
        rows = session.ask(sql).rows()
    wall_s, cpu_s = time.monotonic() - began, time.process_time() - cpu
    return opened | {"wall_s": wall_s, "cpu_s": cpu_s, "rows": rows}


def _found(root: Path) -> dict[str, Any]:
    """What the questions that judge find, and what each takes."""
    late = _timed(root, find("late_ranks").render())
    late["rows"] = [[row["node"], row["rank"], row["late_ns"]] for row in late["rows"]
                    if (row["late_ns"] or 0) >= LATE_NS]  # fmt: skip
    slow = _timed(root, find("slow_nodes").render())
    slow["rows"] = [[row["node"], row["slowdown"]] for row in slow["rows"]]
    others = {name: _timed(root, find(name).render()) for name in QUIET}
    told = {name: answer | {"rows": len(answer["rows"])} for name, answer in others.items()}
    return {"late_ranks": late, "slow_nodes": slow} | told


def measured(recording: Recording, store: Path, nodes: int, planted: Planted) -> dict[str, Any]:
    """Ask such a store."""
    opened = _timed(store, "select count(*) as n from containers")
    one = _timed(store, "select count(*) as n from nccl_events", nodes=[node_name(nodes - 1)])
    about = {"segments": len(current_segments(store)), "containers": opened, "one_node": one}
    found = _found(store)
    return about | found | {"wrong": _wrong(found, recording, nodes, planted)}


def _wrong(found: dict[str, Any], recording: Recording, nodes: int, planted: Planted) -> int:
    """How much was found that was not planted, and not found that was."""
    late = {(node_name(job * JOB_NODES + rank // recording.ranks), rank)
            for job, rank in planted.late.items()}  # fmt: skip
    slow = {node_name(number) for number in planted.slow}
    late ^= {(node, rank) for node, rank, _ in found["late_ranks"]["rows"]}
    slow ^= {node for node, _ in found["slow_nodes"]["rows"]}
    uncovered: int = abs(nodes - found["node_coverage"]["rows"])
    return len(late) + len(slow) + uncovered


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recording", type=Path, help="a store that one node recorded")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=4.0, help="of the recording")
    parser.add_argument("--into", type=Path, help="keep the stores there")
    args = parser.parse_args()
    recording = Recording(args.recording, args.seconds)
    last = (args.nodes - 1) // JOB_NODES
    planted = Planted(
        late={last: 3},
        slow=frozenset({args.nodes // 2}),
        clocks=dict.fromkeys(range(0, args.nodes, 7), 1_000_000),
    )
    stores = {"planted": planted, "nothing_planted": Planted()}
    into = args.into or Path(tempfile.mkdtemp(prefix="cotenant-fleet-"))
    result: dict[str, Any] = {"bench": "fleet", "nodes": args.nodes}
    try:
        for name, what in stores.items():
            if not (into / name).exists():
                same = (into / "planted", planted) if name != "planted" else None
                fill(recording, into / name, args.nodes, what, parts=3, same=same)
            result[name] = measured(recording, into / name, args.nodes, what)
    finally:
        if args.into is None:
            shutil.rmtree(into)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
