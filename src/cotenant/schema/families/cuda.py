"""Calls of the CUDA driver and runtime."""

from typing import Final

from cotenant.schema.events import CUDA_EVENTS
from cotenant.schema.family import THREAD, Family

_LAUNCH: Final = "op IN ('launch', 'graph_launch')"

FAMILY: Final = Family(
    CUDA_EVENTS,
    title="CUDA",
    doc="what each tenant asked of its GPUs",
    gpu=True,
    label="kernel_name",
    lanes_by=("pid", "stream"),
    track=THREAD,
    slice=f"case when {_LAUNCH} then kernel_name else api end",
    arguments=("op", "pid", "stream", "bytes", "direction", "nullif(result, 0) as error"),
    rates={
        "launches": f"sum(weight) FILTER (began AND {_LAUNCH} AND coalesce(result, 0) = 0)",
        "cuda_ns": "sum(within_ns * weight) FILTER (within_ns > 0)",
        "copied_bytes": "sum(bytes::HUGEINT * weight) FILTER (began AND op = 'memcpy')",
    },
    rollup_name="kernel_name",
)
