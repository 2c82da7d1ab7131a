"""What an application measured, from the fact to the row."""

import math
import struct
from typing import Any

import numpy as np
import pytest

from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.samplers.timings import Timings, nanoseconds
from cotenant.schema.layouts import FACT


class Ledger:
    """Every cgroup is called by its number plus one."""

    def translate(self, ids: Any, v1_ids: Any) -> Any:
        return ids.astype(np.int64) + 1


def fact(ms: float) -> Any:
    told = np.zeros((), FACT)
    bits = struct.unpack("<I", struct.pack("<f", ms))[0]
    told["pid"], told["tid"], told["cgroup_id"] = 11, 13, 17
    told["handle"], told["other"], told["timestamp_ns"] = 1009, bits, 2003
    return told


def test_what_was_asked_becomes_a_row_of_the_operation() -> None:
    clock = WallClock()
    timings = Timings(Ledger(), clock)  # type: ignore[arg-type]
    clock.offset_ns = 1_000_000
    timings.elapsed(fact(0.25), b"")
    rows = timings.sample(0)
    assert rows is not None
    assert rows.to_pylist() == [
        {
            "timestamp_ns": 1_001_009,
            "pid": 11,
            "tid": 13,
            "cgroup_id": 18,
            "gpu_ns": 250_000,
            "asked_ns": 1_002_003,
        }
    ]
    assert timings.sample(0) is None


@pytest.mark.parametrize("ms", [math.nan, math.inf, -math.inf, -0.5, 3e38])
def test_memory_that_is_no_time_is_no_row(ms: float) -> None:
    timings = Timings(Ledger(), WallClock())  # type: ignore[arg-type]
    timings.elapsed(fact(ms), b"")
    assert timings.sample(0) is None


def test_milliseconds_become_the_nearest_nanosecond() -> None:
    assert nanoseconds(0.0) == 0
    assert nanoseconds(0.0000014) == 1
    assert nanoseconds(float(np.float32(1.234567))) == 1_234_567
