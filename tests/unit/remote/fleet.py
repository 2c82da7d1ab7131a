"""Small fleets: nodes with rows in every table, from a seed."""

import random
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from cotenant.remote.near import NearNode
from cotenant.remote.place import FarDirectory
from cotenant.remote.plan import Closing
from cotenant.remote.ship import Shipper
from cotenant.remote.shipped import BY_MINUTE
from cotenant.schema import TABLES
from cotenant.schema.folding import SHOWN_BY
from cotenant.store.manifest import Machine, current_segments
from cotenant.store.nodes import all_nodes
from cotenant.store.segment import arrow_schema, rows_of
from cotenant.store.writer import StoreWriter

DAY_NS = 86_400_000_000_000
MINUTE_NS = 60_000_000_000
# Of a day of which hours have passed, and of the day before: a folded day, and windows.
MIDNIGHT_NS = 1_790_000_000_000_000_000 // DAY_NS * DAY_NS
NOW_NS = MIDNIGHT_NS + 180 * MINUTE_NS
FROM_NS, TO_NS = MIDNIGHT_NS - 13 * MINUTE_NS, MIDNIGHT_NS + 17 * MINUTE_NS
ROWS = 23  # Of each table and node.
# What seconds become as they age is not recorded.
RECORDED = tuple(name for name in TABLES if name not in SHOWN_BY)
_WORDS = ("cuda", "nccl", "gemm", "α/β", "")


def _value(field, chance):
    if field.nullable and chance.random() < 0.2:
        return None
    if pa.types.is_list(field.type):
        return [chance.randrange(9) for _ in range(3)]
    if pa.types.is_string(field.type):
        return chance.choice(_WORDS)
    if pa.types.is_boolean(field.type):
        return chance.random() < 0.5
    if pa.types.is_floating(field.type):
        return chance.random()
    return chance.randrange(100)


def made_up(table, count, chance, *, from_ns, to_ns):
    """Rows of any table, at times between these."""
    rows = [{f.name: _value(f, chance) for f in arrow_schema(table)} for _ in range(count)]
    for row in rows:
        row["timestamp_ns"] = chance.randrange(from_ns, to_ns)
    return rows_of(table, rows)


def containers(node, cgroups):
    count = len(cgroups)
    return pa.table(
        {
            "cgroup_id": cgroups,
            "cgroup_path": [f"/{cgroup}" for cgroup in cgroups],
            "container_id": [f"id-{cgroup}" for cgroup in cgroups],
            "tenant": [f"tenant-{cgroup}" for cgroup in cgroups],
            "node": [node] * count,
            "boot_id": ["boot"] * count,
        }
    )


def session_row(node, started_ns, ended_ns=None):
    about = {"session_id": f"{node}-{started_ns}", "node": node, "boot_id": "boot", "kernel": "6"}
    about |= {"started_ns": started_ns, "ended_ns": ended_ns, "wall_offset_ns": 0}
    about |= {"attach_method": "multi", "layers": "auto", "hierarchy": "v2"}
    return rows_of(TABLES["sessions"], [about])


@dataclass
class Fleet:
    """Nodes in one directory, and where they are shipped to."""

    root: Path
    far: Path

    def record(self, node, seed, *, from_ns=FROM_NS, to_ns=TO_NS, tables=RECORDED, machine=None):
        """Rows of all tables, in several seals; ended."""
        chance = random.Random(seed)
        with StoreWriter(self.root, node=node, boot_id="boot", machine=Machine(machine)) as writer:
            writer.replace("containers", containers(node, list(range(seed * 100, seed * 100 + 7))))
            writer.replace("sessions", session_row(node, from_ns, to_ns))
            for count in (ROWS // 2, ROWS - ROWS // 2):
                for table in [TABLES[name] for name in tables if not TABLES[name].snapshot]:
                    rows = made_up(table, count, chance, from_ns=from_ns, to_ns=to_ns)
                    writer.append(table.name, rows)
                writer.seal(to_ns)

    def shippers(self, place=None, tables=BY_MINUTE):
        place = place or FarDirectory(self.far)
        return [Shipper(NearNode(self.root, node), place, tables) for node in all_nodes(self.root)]

    def ship(self, place=None, tables=BY_MINUTE, *, now_ns=NOW_NS, at_rest=True, folds=True):
        """One pass over all nodes by somebody who knows nothing; the objects that were sent."""
        closing = Closing(now_ns, at_rest, folds)
        return sum(s.ship(closing)[0].objects for s in self.shippers(place, tables))


def rows_in(root, table):
    """A table's rows of all nodes, as the manifests name them, in one order."""
    found = []
    for segment in current_segments(root):
        if segment.table == table:
            for row in pq.ParquetFile(root / segment.path).read().to_pylist():
                found.append((segment.node, *row.values()))
    return sorted(found, key=repr)


def all_rows(root):
    return {table: rows_in(root, table) for table in TABLES}
