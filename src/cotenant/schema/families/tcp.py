"""What happens to TCP connections."""

from typing import Final

from cotenant.schema.events import TCP_EVENTS
from cotenant.schema.family import Family

FAMILY: Final = Family(
    TCP_EVENTS,
    title="TCP",
    doc="what happens to TCP connections",
    track="'TCP'",
    arguments=("remote_ip", "remote_port", "state"),
    rates={"retransmits": "sum(weight) FILTER (op = 'retransmit')"},
)
