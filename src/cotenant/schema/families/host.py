"""Threads on and off the CPU."""

from typing import Final

from cotenant.schema.events import HOST_EVENTS
from cotenant.schema.family import THREAD, Family

FAMILY: Final = Family(
    HOST_EVENTS,
    title="Waiting for a CPU",
    doc="threads on and off the CPU",
    # Voluntary sleep is not shown: only waiting for a CPU is.
    shown="NOT (op = 'switch' AND coalesce(state, '') NOT ILIKE 'r%')",
    track=f"{THREAD} || ' on the host'",
    slice="op || coalesce(' ' || state, '')",
    arguments=("cpu", "peer_pid", "state"),
    rates={},
    totals={
        "cpu_ns": "sum(sum_ns) FILTER (family = 'host' AND function = 'oncpu')",
        "wait_ns": "sum(sum_ns) FILTER (family = 'host' AND function = 'runqueue')",
    },
)
