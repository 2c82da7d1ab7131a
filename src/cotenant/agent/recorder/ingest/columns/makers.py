"""Makers of columns by name, as declarations in bpf/event.h refer to them."""

from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.ingest.columns import Maker
from cotenant.agent.recorder.ingest.columns.endpoint import AddressColumn, EndpointColumn
from cotenant.agent.recorder.ingest.columns.kernel import FunctionColumn
from cotenant.agent.recorder.ingest.columns.plain import (
    CopyColumn,
    EnumColumn,
    NullColumn,
    TimeColumn,
)
from cotenant.agent.recorder.ingest.columns.tenant import TenantColumn
from cotenant.identity.ledger import Ledger


def makers(ledger: Ledger, clock: WallClock) -> dict[str, Maker]:
    """Those that need to know nothing of GPU processes."""
    return {
        "copy": CopyColumn(),
        "time": TimeColumn(clock),
        "cgroup": TenantColumn(ledger),
        "enum": EnumColumn(),
        "address": AddressColumn(),
        "endpoint": EndpointColumn(),
        "function": FunctionColumn(),
        "null": NullColumn(),
    }
