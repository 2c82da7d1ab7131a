"""Rows in a store, as a recording would have left them."""

import pyarrow as pa

from cotenant.schema import TABLES
from tests.virtual.device import START_NS
from tests.virtual.spanned import SpannedWriter

TIMES = {"timestamp_ns", "since_ns", "from_ns", "to_ns"}
NODE = "node-a"
BOOT = "boot-1"


class VirtualStore:
    """Collects rows of any table by tenant, then writes them all."""

    def __init__(self, root, node=NODE, first_id=101):
        self.root = root
        self.node = node
        self._first_id = first_id
        self._tenants = {}
        self._rows = {}
        self._recordings = []
        self.later_ns = 0  # Of what is added from now on.

    def tenant(self, name, **more):
        """The tenant's cgroup id; its row of containers may say more."""
        if name not in self._tenants:
            number = self._first_id + len(self._tenants)
            who = {"cgroup_id": number, "tenant": name, "container_id": name}
            self._tenants[name] = who | {"node": self.node, "boot_id": BOOT}
        self._tenants[name] |= more
        return self._tenants[name]["cgroup_id"]

    def add(self, table, tenant, row):
        """One row; what is missing of the columns that every event has is made up."""
        names = {column.name for column in TABLES[table].columns}
        whole = {"pid": 1, "tid": row.get("pid", 1), "comm": "python", "weight": 1}
        whole = {key: value for key, value in whole.items() if key in names} | row
        for column in TIMES & whole.keys():
            whole[column] += self.later_ns
        whole["cgroup_id"] = self.tenant(tenant)
        self._rows.setdefault(table, []).append(whole)

    def process(self, process, gpu="GPU-1"):
        """All rows of a virtual process."""
        for row in process.rows:
            self.add("cuda_events", process.tenant, row | {"gpu": gpu})

    def recording(self, at, node=NODE, **more):
        """Say that a recording began then."""
        row = {"session_id": f"{node}-{at}", "node": node, "boot_id": BOOT, "kernel": "6.1"}
        row |= {"started_ns": START_NS + at, "wall_offset_ns": 0, "attach_method": "multi"}
        self._recordings.append(row | {"layers": "auto", "hierarchy": "v2"} | more)

    def complete(self, *families):
        """Say that nothing of these families was lost."""
        for family in families:
            for name in list(self._tenants):
                seen = sum(
                    row["cgroup_id"] == self.tenant(name)
                    for row in self._rows.get(f"{family}_events", [])
                )
                row = {"timestamp_ns": START_NS, "family": family, "seen": seen, "stored": seen}
                self.add("losses", name, row | {"shed": 0, "lost": 0, "queued": 0})

    def write(self):
        """Seal everything; the root of the store."""
        with SpannedWriter(self.root, node=self.node, boot_id=BOOT) as writer:
            who = list(self._tenants.values())
            names = {name for row in who for name in row}
            whole = [{name: row.get(name) for name in names} for row in who]
            writer.replace("containers", pa.Table.from_pylist(whole))
            for recording in self._recordings:
                writer.replace("sessions", pa.Table.from_pylist([recording]))
            for table, rows in self._rows.items():
                columns = [c.name for c in TABLES[table].columns]
                have = [c for c in columns if any(c in row for row in rows)]
                data = {c: [row.get(c) for row in rows] for c in have}
                writer.append(table, pa.table(data))
            writer.seal(START_NS)
        return self.root
