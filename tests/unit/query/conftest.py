"""A small store with two tenants, made anew for each test."""

import pyarrow as pa
import pytest

from cotenant.query.engine.session import Session
from tests.virtual.spanned import SpannedWriter

NOW_NS = 1_790_000_000_000_000_000
SECOND_NS = 1_000_000_000
NOBODY = 99  # The row of what nobody knows the owner of.


class Recorded:
    """Two tenants: ``train`` launches 7 kernels, ``serve`` 3 and copies twice; nccl by train."""

    def __init__(self, root):
        self.root = root
        self.writer = SpannedWriter(root, node="node-a", boot_id="boot-1")

    def containers(self):
        self.writer.replace(
            "containers",
            pa.table(
                {
                    "cgroup_id": [11, 22, NOBODY],
                    "container_id": ["a" * 64, "b" * 64, "unknown"],
                    "tenant": ["train", "ml/serve", "unknown"],
                    "name": ["train", None, None],
                    "pod": [None, "serve", None],
                    "namespace": [None, "ml", None],
                    "node": ["node-a"] * 3,
                    "boot_id": ["boot-1"] * 3,
                }
            ),
        )

    def calls(self, table, cgroup_id, count, at_ns, **columns):
        """Calls of one thread, a nanosecond apart; a column is a list, or one value for all."""
        columns |= {"pid": cgroup_id, "tid": cgroup_id, "cgroup_id": cgroup_id}
        columns |= {"comm": "python", "weight": 1}
        rows = {k: v if isinstance(v, list) else [v] * count for k, v in columns.items()}
        rows["timestamp_ns"] = [at_ns + i for i in range(count)]
        self.writer.append(table, pa.table(rows))

    def launches(self, cgroup_id, count, *, at_ns=NOW_NS, name="gemm", op="launch"):
        what = {"op": op, "api": "cuLaunchKernel", "kernel_name": name, "duration_ns": 1_000_000}
        self.calls("cuda_events", cgroup_id, count, at_ns, **what)

    def all_reduces(self, cgroup_id, count, *, at_ns=NOW_NS):
        took = [2_000_000 * (i + 1) for i in range(count)]
        what = {"op": "AllReduce", "api": "ncclAllReduce", "duration_ns": took}
        self.calls("nccl_events", cgroup_id, count, at_ns, **what)

    def losses(self, cgroup_id, *, seen, lost=0, shed=0, family="cuda", at_ns=NOW_NS):
        row = {"seen": seen, "stored": seen - lost - shed, "shed": shed, "lost": lost, "queued": 0}
        row |= {"timestamp_ns": at_ns, "family": family, "cgroup_id": cgroup_id}
        self.writer.append("losses", pa.Table.from_pylist([row]))

    def hole(self, cgroup_id, reason, from_ns, to_ns, *, unseen=None, family="cuda", at_ns=None):
        """Something went unseen between these times; told at ``at_ns``, by default at once."""
        row = dict.fromkeys(("seen", "stored", "shed", "lost", "queued"), 0)
        row |= {"timestamp_ns": to_ns if at_ns is None else at_ns, "family": family}
        row |= {"cgroup_id": cgroup_id, "reason": reason, "unseen": unseen}
        row |= {"from_ns": from_ns, "to_ns": to_ns}
        self.writer.append("losses", pa.Table.from_pylist([row]))

    def sessions(self, *times, notes=None, **more):
        """Recordings of the node, from when to when."""
        about = {"boot_id": "boot-1", "kernel": "6", "wall_offset_ns": 0, "attach_method": "multi"}
        about |= {"layers": "auto", "hierarchy": "v2", "node": "node-a", "notes": notes}
        about |= more
        for number, (start, end) in enumerate(times):
            row = about | {"session_id": str(number), "started_ns": start, "ended_ns": end}
            self.writer.replace("sessions", pa.Table.from_pylist([row]))

    def seal(self):
        self.writer.seal(NOW_NS)


@pytest.fixture
def recorded(tmp_path):
    store = Recorded(tmp_path / "store")
    store.containers()
    store.launches(11, 7)
    store.launches(22, 3, at_ns=NOW_NS + SECOND_NS)
    store.launches(22, 2, at_ns=NOW_NS + 2 * SECOND_NS, name="[memcpy HtoD]", op="memcpy")
    store.all_reduces(11, 3)
    store.seal()
    yield store
    store.writer.close()


@pytest.fixture
def ask(recorded):
    """``ask(sql, **session options)``: the rows as tuples."""

    def ask(sql, params=None, **options):
        with Session(recorded.root, **options) as session:
            return [tuple(row.values()) for row in session.ask(sql, params).rows()]

    return ask
