"""How long questions about a week take that is kept as seconds, minutes and hours.

    python bench/week.py [--days 7] [--tenants 20]

Each second each tenant calls five kernels, has work on a GPU that it shares with one other, uses a
CPU and reads from a disk. Rollups are folded as they age, as the agent does it; no event has a row
of its own any more. Each question runs in a process of its own.
"""

import argparse
import json
import math
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from apart import asked, parsed

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from cotenant.query.screens.activity import kernels_sql, tenants_sql
from cotenant.schema.folding import DAY_NS, HOUR_NS, SECOND_NS
from cotenant.store.compaction import Compactor
from cotenant.store.folding import Folding
from cotenant.store.graveyard import GRACE_NS
from cotenant.store.writer import StoreWriter

KERNELS: Final = 5
HOUR_S: Final = 3600
_HISTOGRAM: Final = 8
RUNS: Final = 3  # The best of so many counts.


class Week:
    """Rows of one hour of all tenants."""

    def __init__(self, tenants: int) -> None:
        self._tenants = tenants
        self._rng = np.random.default_rng(11)

    def _who(self, each: int = 1) -> tuple[Any, Any]:
        """The second of each row from 0, and its tenant."""
        rows = np.arange(HOUR_S * self._tenants * each)
        return rows // (self._tenants * each), rows // each % self._tenants

    def rollups(self, began_ns: int) -> pa.Table:
        second, tenant = self._who(KERNELS)
        count = self._rng.integers(1, 500, len(second))
        names = pa.array([f"kernel_{number}" for number in range(KERNELS)])
        which = pa.array((np.arange(len(second)) % KERNELS).astype(np.int32))
        return pa.table(
            {
                "timestamp_ns": began_ns + second * SECOND_NS,
                "cgroup_id": 100 + tenant,
                "family": _same("cuda", len(second)),
                "op": _same("launch", len(second)),
                "name": pa.DictionaryArray.from_arrays(which, names),
                "count": count,
                "sum_ns": count * 3_000,
                "max_ns": count + 9_000,
            }
        )

    def gpu_seconds(self, began_ns: int) -> pa.Table:
        second, tenant = self._who()
        queued = self._rng.integers(0, SECOND_NS, len(second))
        none = np.zeros(len(second), np.int64)
        at = began_ns + second * SECOND_NS
        return pa.table(
            {
                "timestamp_ns": at,
                "cgroup_id": 100 + tenant,
                "gpu": self._gpus(tenant),
                "queued_ns": queued,
                "overlapped_ns": queued // 3,
                "unproven_ns": none,
                "launches": queued // 100_000,
                "waits": queued // 1_000_000,
                "waited_ns": queued // 2,
                "copied_bytes": none,
                "memory_bytes": none + (8 << 30),
                "told_ns": at + 2 * SECOND_NS,
            }
        )

    def gpu_overlaps(self, began_ns: int) -> pa.Table:
        second, tenant = self._who()
        return pa.table(
            {
                "timestamp_ns": began_ns + second * SECOND_NS,
                "cgroup_id": 100 + tenant,
                "other_cgroup_id": 100 + (tenant ^ 1),
                "gpu": self._gpus(tenant),
                "overlap_ns": self._rng.integers(0, SECOND_NS, len(second)),
            }
        )

    def totals(self, began_ns: int) -> pa.Table:
        second, tenant = self._who(2)
        used = self._rng.integers(1, SECOND_NS, len(second))
        io = np.arange(len(second)) % 2
        ends = pa.array(np.arange(len(second) + 1, dtype=np.int32) * _HISTOGRAM)
        calls = pa.array(np.ones(len(second) * _HISTOGRAM, np.int64))
        return pa.table(
            {
                "timestamp_ns": began_ns + (second + 1) * SECOND_NS,
                "cgroup_id": 100 + tenant,
                "family": _coded(io, ["host", "io"]),
                "function": _coded(io, ["oncpu", "read"]),
                "count": np.full(len(second), _HISTOGRAM),
                "sum_ns": used,
                "max_ns": used,
                "histogram": pa.ListArray.from_arrays(ends, calls),
                "bytes": pa.array(used >> 10, mask=io == 0),
            }
        )

    def _gpus(self, tenant: Any) -> pa.Array:
        return _coded(tenant // 2, [f"GPU-{n}" for n in range((self._tenants + 1) // 2)])


def _coded(codes: Any, values: list[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(values))


def _same(value: str, rows: int) -> pa.Array:
    return _coded(np.zeros(rows), [value])


def fill(root: Path, days: int, tenants: int, end_ns: int) -> None:
    """The store of a recording that ends then."""
    week = Week(tenants)
    began = (end_ns - days * DAY_NS) // HOUR_NS * HOUR_NS
    names = {"cgroup_id": range(100, 100 + tenants)}
    names |= {key: [f"tenant-{n}" for n in range(tenants)] for key in ("tenant", "container_id")}
    names |= {"node": ["bench"] * tenants, "boot_id": ["bench"] * tenants}
    with StoreWriter(root, node="bench", boot_id="bench") as store:
        store.replace("containers", pa.table({key: list(v) for key, v in names.items()}))
        folding, compactor = Folding(store, share=1e9), Compactor(store, share=1e9)
        makers: tuple[Callable[[int], pa.Table], ...] = (
            week.rollups, week.gpu_seconds, week.gpu_overlaps, week.totals,
        )  # fmt: skip
        for hour in range(days * 24):
            at = began + hour * HOUR_NS
            for make in makers:
                store.append(make.__name__, make(at))
                store.seal(at)
            while folding.step(at + HOUR_NS) or compactor.step(at + HOUR_NS):
                pass
            store.bury(at + HOUR_NS + GRACE_NS)


def ask(root: Path, name: str, days: int) -> dict[str, float]:
    """One question, here and now."""
    began, cpu = time.monotonic(), time.process_time()
    with Session(root, since_ns=days * DAY_NS + HOUR_NS) as session:
        if name == "overview":
            now = time.time_ns()
            rows = session.ask(tenants_sql(now - days * DAY_NS, now, in_flight=True)).rows()
            session.ask(kernels_sql(now - days * DAY_NS, now))
        else:
            rows = session.ask(find(name).render()).rows()
    assert rows, name
    return {"wall_s": time.monotonic() - began, "cpu_s": time.process_time() - cpu}


def measured(root: Path, days: int) -> dict[str, Any]:
    """The best of some runs of each."""
    found: dict[str, Any] = {}
    for name in ("top_kernels", "gpu_use", "rightsize", "overview"):
        runs = [asked(__file__, root, name, "--days", str(days)) for _ in range(RUNS)]
        found[name] = min(runs, key=lambda run: run.get("wall_s", math.inf))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--tenants", type=int, default=20)
    args = parsed(parser, lambda args: ask(args.store, args.ask, args.days))
    place = Path(tempfile.mkdtemp(prefix="cotenant-week-"))
    try:
        fill(place / "store", args.days, args.tenants, time.time_ns())
        sizes: dict[str, int] = {}
        for file in (place / "store").rglob("*.parquet*"):
            table = file.relative_to(place / "store").parts[0]
            sizes[table] = sizes.get(table, 0) + file.stat().st_size
        result = {"days": args.days, "tenants": args.tenants, "bytes": sizes}
        print(json.dumps(result | {"asked": measured(place / "store", args.days)}))
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
