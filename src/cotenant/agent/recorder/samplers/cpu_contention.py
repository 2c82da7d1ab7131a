"""Who had the CPU that a tenant's threads waited for, as summed up in the kernel."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cotenant.agent.recorder.overhead.first_tenants import CpuTaken
from cotenant.identity.ledger import Ledger
from cotenant.probes.kernel_maps import KernelMap
from cotenant.schema.constants import MAPS, TENANT_HOST
from cotenant.schema.layouts import CONTENTION, CONTENTION_KEY

Gone = Callable[[int, int], bool]  # Whether the cgroup with these two ids was removed.
Freed = Callable[[str, int], None]  # An entry of a map that a tenant had was removed.

_IDLE_SAMPLES: Final = 30  # Without a change, after which a pair of a removed cgroup is deleted.


class CpuContention:
    """Writes what was added to each pair since the last sample."""

    table: Final = "cpu_contention"

    def __init__(self, pairs: KernelMap, ledger: Ledger, gone: Gone, freed: Freed) -> None:
        self._pairs = pairs
        self._ledger = ledger
        self._gone = gone
        self._freed = freed
        self._before: dict[bytes, int] = {}
        self._sampled_ns: int | None = None
        self._idle: dict[bytes, int] = {}
        self.taken: list[CpuTaken] = []  # Since the sample before.

    def sample(self, now_ns: int) -> Any | None:
        """One row for each pair of which a thread waited; None if none did."""
        since_ns, self._sampled_ns = self._sampled_ns, now_ns
        keys, values = self._pairs.items()
        width = MAPS["contention"][0]
        names = [keys[at : at + width] for at in range(0, len(keys), width)]
        entries = np.frombuffer(values, CONTENTION)
        sums = entries["waited_ns"].astype(np.int64)
        before = np.array([self._before.get(name, 0) for name in names], np.int64)
        self._before = dict(zip(names, sums.tolist(), strict=True))
        added = sums - before
        changed = np.flatnonzero(added > 0)
        tenants = dict(zip(names, entries["tenant"].tolist(), strict=True))
        self._forget(tenants, set(changed.tolist()))
        pairs = np.frombuffer(keys, CONTENTION_KEY)[changed]
        self._note(pairs, entries["tenant"][changed], added[changed])
        if not len(changed):
            return None
        rows = self._rows(now_ns, pairs, added[changed])
        return rows.append_column("since_ns", pa.array([since_ns] * len(rows), pa.int64()))

    def _note(
        self,
        pairs: npt.NDArray[np.void],
        tenants: npt.NDArray[np.uint64],
        waited: npt.NDArray[np.int64],
    ) -> None:
        """Who took what from whom, as programs know them."""
        who = np.where(tenants == TENANT_HOST, pairs["cgroup_id"], tenants)
        columns = (who, pairs["peer_cgroup_id"], pairs["peer_v1_id"], waited)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        self.taken = [CpuTaken(*row) for row in rows]

    def _rows(self, now_ns: int, pairs: npt.NDArray[np.void], waited: npt.NDArray[np.int64]) -> Any:
        own = [np.ascontiguousarray(pairs[name]) for name in ("cgroup_id", "cgroup_v1_id")]
        peer = [np.ascontiguousarray(pairs[name]) for name in ("peer_cgroup_id", "peer_v1_id")]
        nobody = (peer[0] == 0) & (peer[1] == 0)
        return pa.table(
            {
                "timestamp_ns": np.full(len(pairs), now_ns, np.int64),
                "cgroup_id": self._ledger.translate(*own),
                "peer_cgroup_id": pa.array(self._ledger.translate(*peer), mask=nobody),
                "waited_ns": waited,
            }
        )

    def _forget(self, tenants: dict[bytes, int], busy: set[int]) -> None:
        """Delete pairs of removed cgroups from the kernel's map."""
        idle = {
            name: self._idle.get(name, 0) + 1 for at, name in enumerate(tenants) if at not in busy
        }
        for name in [name for name, samples in idle.items() if samples >= _IDLE_SAMPLES]:
            own, own_v1, peer, peer_v1 = np.frombuffer(name, np.uint64).tolist()
            if self._gone(own, own_v1) or ((peer or peer_v1) and self._gone(peer, peer_v1)):
                self._pairs.delete(name)
                self._freed("contention", tenants[name])
                del idle[name], self._before[name]
            else:
                idle[name] = 0
        self._idle = idle
