"""Block requests."""

from typing import Final

from cotenant.schema.events import IO_EVENTS
from cotenant.schema.family import Family

FAMILY: Final = Family(
    IO_EVENTS,
    title="Disk",
    doc="block requests",
    label="concat_ws(' ', op, device)",
    track="'disk ' || device",
    arguments=("pid", "bytes", "queue_ns", "attribution"),
    rates={"disk_bytes": "sum(bytes * weight)"},
    rollup_name="device",
)
