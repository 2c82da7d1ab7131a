"""Calls that have not returned yet."""

from typing import Any, Final

import numpy as np

from cotenant.agent.process import Process
from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.processes.communicators import Communicators
from cotenant.identity.ledger import Ledger
from cotenant.printable import printable
from cotenant.probes.kernel_maps import KernelMap
from cotenant.probes.tables import BY_ID
from cotenant.schema.dimensions import IN_FLIGHT
from cotenant.schema.layouts import FLIGHT
from cotenant.store.segment import rows_of


class InFlight:
    """Asks the kernel for every thread's outermost call."""

    table: Final = "in_flight"

    def __init__(
        self, under_way: KernelMap, ledger: Ledger, communicators: Communicators, clock: WallClock
    ) -> None:
        self._under_way = under_way
        self._ledger = ledger
        self._communicators = communicators
        self._clock = clock

    def sample(self, now_ns: int) -> Any:
        """A row for each call that is under way now."""
        found = np.frombuffer(self._under_way.read(), FLIGHT)
        ids = self._ledger.translate(
            np.ascontiguousarray(found["cgroup_id"]), np.ascontiguousarray(found["cgroup_v1_id"])
        )
        rows = [self._row(call, int(cgroup)) for call, cgroup in zip(found, ids, strict=True)]
        for row in rows:
            row["timestamp_ns"] = now_ns
            row["began_ns"] += self._clock.offset_ns
        # What began while the kernel was asked is in the next sample.
        under_way = [r for r in rows if r["function"] and r["began_ns"] < now_ns]
        return rows_of(IN_FLIGHT, under_way)

    def _row(self, call: np.void, cgroup: int) -> dict[str, Any]:
        function = BY_ID.get(int(call["function"]))
        process = Process.of(call)
        communicator = int(call["communicator"])
        text = bytes(call["comm"]).split(b"\0", 1)[0].decode("utf-8", "replace")
        return {
            "pid": int(call["pid"]),
            "tid": int(call["tid"]),
            "cgroup_id": cgroup,
            "comm": printable(text),
            "family": str(function.family) if function else None,
            "function": function.symbol if function else None,
            "began_ns": int(call["began_ns"]),
            "comm_hash": (
                self._communicators.find(process, communicator).hash if communicator else None
            ),
            "stream": int(call["stream"].astype(np.int64)) if call["known"] else None,
        }
