"""Calls of NCCL."""

from typing import Final

from cotenant.schema.events import NCCL_EVENTS
from cotenant.schema.family import THREAD, Family

FAMILY: Final = Family(
    NCCL_EVENTS,
    title="NCCL",
    doc="what ranks ask of each other",
    gpu=True,
    lanes_by=("pid",),
    track=f"{THREAD} || ' in NCCL'",
    arguments=("pid", "bytes", "comm_hash", "rank", "nranks"),
    rates={
        "nccl_calls": "sum(weight) FILTER (began)",
        "nccl_ns": "sum(within_ns * weight) FILTER (within_ns > 0)",
    },
)
