"""Bytes through sockets, and connections."""

from typing import Final

from cotenant.schema.events import NET_EVENTS
from cotenant.schema.family import THREAD, Family

FAMILY: Final = Family(
    NET_EVENTS,
    title="Network",
    doc="bytes through sockets, connections made and taken",
    track=f"{THREAD} || ' on the network'",
    arguments=("pid", "bytes", "family", "remote"),
    rates={"net_bytes": "sum(bytes * weight)"},
)
