"""Device times of single operations, as applications measured them with CUDA events."""

import math
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.identity.ledger import Ledger

_NS_PER_MS: Final = 1e6
_LONGEST_MS: Final = 1e12  # Longer than any event is old: what was read is no time.
_FIELDS: Final = ("began_ns", "pid", "tid", "cgroup_id", "cgroup_v1_id", "gpu_ns", "asked_ns")


def nanoseconds(ms: float) -> int | None:
    """What CUDA told in milliseconds, to the nearest nanosecond; None if it is no time."""
    return round(ms * _NS_PER_MS) if math.isfinite(ms) and 0 <= ms < _LONGEST_MS else None


class Timings:
    """Collects the times that applications asked CUDA for, until they are written."""

    table: Final = "gpu_timings"

    def __init__(self, ledger: Ledger, clock: WallClock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._told: list[tuple[int, ...]] = []

    def elapsed(self, fact: Any, _: bytes) -> None:
        """An application asked for the time between two events around one operation."""
        bits = np.array([fact["other"]], np.uint64).astype(np.uint32)
        gpu_ns = nanoseconds(float(bits.view(np.float32)[0]))
        if gpu_ns is None:
            return
        ids = (int(fact[name]) for name in ("handle", "pid", "tid", "cgroup_id", "cgroup_v1_id"))
        self._told.append((*ids, gpu_ns, int(fact["timestamp_ns"])))

    def sample(self, now_ns: int) -> Any | None:
        """Rows for the times since the last sample; None if there are none."""
        if not self._told:
            return None
        told = np.array(self._told, np.uint64).T
        self._told = []
        by_name = dict(zip(_FIELDS, map(np.ascontiguousarray, told), strict=True))
        tenants = self._ledger.translate(by_name["cgroup_id"], by_name["cgroup_v1_id"])
        return pa.table(
            {
                "timestamp_ns": self._clock.utc(by_name["began_ns"]),
                "pid": by_name["pid"].astype(np.int32),
                "tid": by_name["tid"].astype(np.int32),
                "cgroup_id": pa.array(tenants, pa.int64()),
                "gpu_ns": by_name["gpu_ns"].astype(np.int64),
                "asked_ns": self._clock.utc(by_name["asked_ns"]),
            }
        )
