"""How many bytes a node ships in a day: by the minute, window by window, and the folded day.

    python bench/ship.py [--tenants 3]

The rows are those of ``week.py``: each second each tenant calls five kernels, has work on a GPU
that it may share, uses a CPU and reads from a disk. Besides, ``losses`` of two families each
second, ``limits`` and ``gpu_memory`` each ten minutes, and a row of ``sessions`` that has changed
with each window. The far store is a directory; a bucket gets the same objects.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
from week import Week

from cotenant.remote.near import NearNode
from cotenant.remote.pace import Pace
from cotenant.remote.place import FarDirectory
from cotenant.remote.plan import Closing
from cotenant.remote.ship import Shipper
from cotenant.remote.shipped import BY_MINUTE
from cotenant.schema.folding import DAY_NS, HOUR_NS, SECOND_NS
from cotenant.store.manifest import current_segments
from cotenant.store.periods import WINDOW_NS
from cotenant.store.writer import StoreWriter

MIDNIGHT_NS: Final = 1_790_000_000 * SECOND_NS // DAY_NS * DAY_NS
MINUTES: Final = ("rollup_minutes", "gpu_minutes", "gpu_overlap_minutes")


class Counting(FarDirectory):
    """Counts what is put."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.bytes: Counter[str] = Counter()
        self.objects: Counter[str] = Counter()

    def write(self, path: str, content: BinaryIO, pace: Pace) -> None:
        table = path.partition("/")[0]
        self.bytes[table] += content.seek(0, 2)
        self.objects[table] += 1
        super().write(path, content, pace)


def losses(began_ns: int, tenants: int) -> pa.Table:
    """Nothing lost, in an hour."""
    rows = np.arange(3600 * tenants * 2)
    seen = np.random.default_rng(began_ns).integers(1, 900, len(rows))
    none = np.zeros(len(rows), np.int64)
    return pa.table(
        {
            "timestamp_ns": began_ns + (rows // (2 * tenants) + 1) * SECOND_NS - 1,
            "family": [("cuda", "io")[n % 2] for n in rows.tolist()],
            "cgroup_id": 100 + rows // 2 % tenants,
            "seen": seen, "stored": seen, "shed": none, "lost": none, "queued": none,
        }
    )  # fmt: skip


def held(began_ns: int, tenants: int, **columns: Any) -> pa.Table:
    """A row for each tenant, as every ten minutes."""
    rows = {key: [value] * tenants for key, value in columns.items()}
    who = {"timestamp_ns": [began_ns] * tenants, "cgroup_id": range(100, 100 + tenants)}
    return pa.table({key: list(values) for key, values in (who | rows).items()})


def snapshots(store: StoreWriter, tenants: int, now_ns: int) -> None:
    """Who is there; and a recording that goes on."""
    names = {"cgroup_id": list(range(100, 100 + tenants))}
    more = {key: [f"ml/job-{n}" for n in range(tenants)] for key in ("tenant", "container_id")}
    more |= {"cgroup_path": [f"/kubepods/pod-{n}" for n in range(tenants)]}
    more |= {"node": ["bench"] * tenants, "boot_id": ["bench"] * tenants}
    store.replace("containers", pa.table(names | more))
    about = {"session_id": "bench", "node": "bench", "boot_id": "bench", "kernel": "6.18"}
    about |= {"attach_method": "multi", "layers": "auto", "hierarchy": "v2", "notes": "n" * 2000}
    times = {"started_ns": MIDNIGHT_NS, "wall_offset_ns": now_ns % 997}
    row = {key: [value] for key, value in (about | times).items()}
    store.replace("sessions", pa.table(row))


def record(store: StoreWriter, tables: dict[str, pa.Table], from_ns: int) -> None:
    """What came in a window."""
    for name, rows in tables.items():
        times = rows.column("timestamp_ns").to_numpy()
        store.append(
            name, rows.filter(pa.array((times >= from_ns) & (times < from_ns + WINDOW_NS)))
        )
    store.seal(from_ns + WINDOW_NS)


def a_day(root: Path, tenants: int) -> dict[str, Any]:
    """Record and ship, window by window, and fold the day."""
    week, place = Week(tenants), Counting(root / "far")
    shipper = Shipper(NearNode(root / "near", "bench"), place, BY_MINUTE)
    cpu = time.process_time()
    spent = 0.0
    with StoreWriter(root / "near", node="bench", boot_id="bench") as store:
        for hour_ns in range(MIDNIGHT_NS, MIDNIGHT_NS + DAY_NS, HOUR_NS):
            tables = {
                "rollups": week.rollups(hour_ns), "gpu_seconds": week.gpu_seconds(hour_ns),
                "gpu_overlaps": week.gpu_overlaps(hour_ns), "totals": week.totals(hour_ns),
                "losses": losses(hour_ns, tenants),
            }  # fmt: skip
            for at in range(hour_ns, hour_ns + HOUR_NS, WINDOW_NS):
                snapshots(store, tenants, at)
                store.append("limits", held(at, tenants, cpus=8.0, memory_bytes=64 << 30))
                memory = held(at, tenants, gpu="GPU-0", bytes=8 << 30, allocations=31)
                store.append("gpu_memory", memory)
                record(store, tables, at)
                cpu = time.process_time()
                shipper.ship(Closing(at + 2 * WINDOW_NS))
                spent += time.process_time() - cpu
        windows = dict(place.bytes)
        cpu = time.process_time()
        shipper.ship(Closing(MIDNIGHT_NS + 2 * DAY_NS))
        spent += time.process_time() - cpu
    kept: Counter[str] = Counter()
    for segment in current_segments(root / "far"):
        kept[segment.table] += segment.bytes
    return {
        "tenants": tenants,
        "sent_mb": _mb(sum(place.bytes.values())),
        "objects": sum(place.objects.values()),
        "minute_rollups_sent_mb": _mb(sum(place.bytes[table] for table in MINUTES)),
        "minute_rollups_kept_mb": _mb(sum(kept[table] for table in MINUTES)),
        "kept_mb": _mb(sum(kept.values())),
        "sent_in_windows_mb": {table: _mb(size) for table, size in sorted(windows.items())},
        "kept_by_table_mb": {table: _mb(size) for table, size in sorted(kept.items())},
        "cpu_s": round(spent, 2),
    }


def _mb(size: int) -> float:
    return round(size / 1e6, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tenants", type=int, default=3)
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="cotenant-ship-"))
    try:
        print(json.dumps(a_day(root, args.tenants), indent=1))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
