"""Exact totals out of the kernel: what changed since the last sample."""

from collections import Counter
from collections.abc import Callable, Collection
from time import time_ns
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cotenant.agent.recorder.ingest.columns.owner import OWNER, owners
from cotenant.agent.recorder.samplers.callers import MESSAGES, Callers
from cotenant.agent.recorder.samplers.losses import Fate, Losses, Tally
from cotenant.agent.recorder.samplers.not_recorded import Left
from cotenant.identity.ids import NOBODY, UNTOLD
from cotenant.identity.ledger import Ledger
from cotenant.probes.cpus import possible_cpus
from cotenant.probes.kernel import counted, kernel_function
from cotenant.probes.kernel_maps import KernelMaps
from cotenant.schema.constants import KERNEL_FUNCTION_BIT, KERNEL_FUNCTION_KIND_SHIFT
from cotenant.schema.layouts import TOTAL, TOTAL_KEY

_SUMMED: Final = (
    "count", "sum_ns", "bytes", "rows", "shed", "lost", "unmeasured", "withheld",
    "carried", "shed_bytes", "carried_bytes",
)  # fmt: skip
# Samples without a change after which the total of a removed cgroup is deleted.
_IDLE_SAMPLES: Final = 30
_LARGEST: Final = np.uint64((1 << 63) - 1)

Values = npt.NDArray[np.int64]
Tenants = npt.NDArray[np.uint64]

_ON_CPU: Final = kernel_function("host", "oncpu")
_SPARE: Final = b"spare"
# Of `waiting`, the low bits are how many events; above is the window that they are of.
_WAITING_BITS: Final = np.uint64(32)
_WAITING_MASK: Final = np.uint64((1 << 32) - 1)


class Totals:
    """Reads the kernel's totals and writes what changed."""

    table: Final = "totals"

    def __init__(
        self,
        maps: KernelMaps,
        ledger: Ledger,
        losses: Losses,
        end_window: Callable[[], int],
        freed: Callable[[str, int], None],
        without: Collection[int] = (),
    ) -> None:
        self._totals = maps["totals"]
        self._spare = maps["spare_totals"]
        self._ledger = ledger
        self._losses = losses
        self._left: list[Left] = []
        self._end_window = end_window
        self._freed = freed
        self._without = without  # Functions that are not counted throughout.
        self._cpus = possible_cpus()
        self._sampled_ns: int | None = None
        self._callers = Callers(maps.get("callers"), self._cpus)
        self._places: dict[bytes, int] = {}
        self._sums: dict[str, Values] = {name: np.zeros(0, np.int64) for name in _SUMMED}
        self._histogram = np.zeros((0, TOTAL["histogram"].shape[0]), np.uint32)
        self._idle: dict[bytes, int] = {}
        # Per tenant and function, in the last window: calls, and those counted at entry only.
        self.calls: dict[tuple[Tally, int], tuple[int, int]] = {}
        # Whose they are: the key of the tenant in the programs' maps, see bpf/common/tenant.h.
        self.tenants: dict[Tally, int] = {}
        # How many tenants had GPU calls, and how many each kind of kernel event, in that window.
        self.calling = self.raising = 0
        self.unmeasured: Counter[str] = Counter()  # Calls counted at entry only, by function.
        self.withheld: Counter[str] = Counter()  # Over the kernel budget, by family.
        self.unix_messages = 0  # Those that become no row.

    def begin(self, now_ns: int) -> None:
        """The recording begins: time on a CPU was counted before, and is not of it."""
        entries, cpus, names = self._kept()
        before = (entries["function"] == _ON_CPU)[:, None]
        self._places = {name: at for at, name in enumerate(names)}
        self._sums = {
            name: np.where(before, cpus[name], 0).sum(axis=1).astype(np.int64) for name in _SUMMED
        }
        kept = np.where(before[..., None], cpus["histogram"], 0)
        self._histogram = kept.sum(axis=1, dtype=np.uint32)
        self._sampled_ns = now_ns

    def sample(self, now_ns: int) -> Any:
        """Rows for the window that ends now."""
        window = self._end_window()
        entries, cpus, names = self._kept()
        # On a busy host much of a second may have passed since the cycle began.
        now_ns = max(now_ns, time_ns())
        elsewhere = self._callers.add(cpus, names)
        moving = np.isin(entries["function"], MESSAGES)
        before = np.array([self._places.get(name, -1) for name in names], np.int64)
        sums = {name: cpus[name].sum(axis=1).astype(np.int64) for name in _SUMMED}
        for name, waiting in zip(
            ("carried", "carried_bytes"), _waiting(cpus, window + 1), strict=True
        ):
            sums[name] += waiting
        # Buckets wrap around, and so does what was added to them.
        histogram = cpus["histogram"].sum(axis=1, dtype=np.uint32)
        known = before >= 0
        delta = {name: _since(sums[name], self._sums[name], before, known) for name in _SUMMED}
        buckets = _since(histogram, self._histogram, before, known)
        for name in _SUMMED:
            _hold(sums[name], delta[name], moving)
        _hold(histogram[:, 0], buckets[:, 0].view(np.int32), moving)
        self._places = {name: at for at, name in enumerate(names)}
        self._sums, self._histogram = sums, histogram
        changed = np.flatnonzero((delta["count"] != 0) | (delta["rows"] != 0))
        tenants = cpus["tenant"].max(axis=1, initial=0)
        self._tell(
            entries[changed], tenants[changed], {name: delta[name][changed] for name in _SUMMED}
        )
        busy = elsewhere.union(changed.tolist())
        self._forget(names, busy, entries, cpus["payer"].max(axis=1, initial=0))
        longest = _longest(cpus, window)
        rows = self._rows(now_ns, entries, changed, delta, buckets, longest)
        self._leave(now_ns, entries, delta)
        self._sampled_ns = now_ns
        return rows

    def _kept(self) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void], list[bytes]]:
        """The kernel's maps: keys, values per CPU, and a name for each entry.

        A spare total is an entry of its own, on one CPU: its key may be in both maps.
        """
        width = TOTAL_KEY.itemsize
        keys, values = self._totals.items()
        spare_keys, spare_values = self._spare.items()
        cpus = np.frombuffer(values, TOTAL).reshape(-1, self._cpus)
        spare = np.zeros((len(spare_keys) // width, self._cpus), TOTAL)
        spare[:, 0] = np.frombuffer(spare_values, TOTAL)
        names = [keys[at : at + width] for at in range(0, len(keys), width)]
        names += [spare_keys[at : at + width] + _SPARE for at in range(0, len(spare_keys), width)]
        return np.frombuffer(keys + spare_keys, TOTAL_KEY), np.concatenate([cpus, spare]), names

    def _tell(
        self, entries: npt.NDArray[np.void], tenants: Tenants, delta: dict[str, Values]
    ) -> None:
        """What became of the events behind these totals."""
        self.calls = {}
        self.tenants = {}
        queued = delta["rows"] > 0
        self._count_quotas(entries["function"][queued], tenants[queued])
        owner = list(zip(*(entries[name].tolist() for name in OWNER), strict=True))
        for at, function in enumerate(entries["function"].tolist()):
            about = counted(function)
            if about is None:
                continue
            count, unmeasured = int(delta["count"][at]), int(delta["unmeasured"][at])
            rows, shed, lost, withheld = (
                int(delta[name][at]) for name in ("rows", "shed", "lost", "withheld")
            )
            tally = Tally(about[0], *owner[at])
            # A call over budget that was to become no row of its own is not shed.
            self._losses.count(tally, Fate(rows, shed, lost, min(shed, unmeasured + withheld)))
            self.calls[tally, function] = (count, unmeasured)
            self.tenants[tally] = int(tenants[at])
            if withheld:
                self.withheld[tally.family] += withheld
            if function in MESSAGES:
                self.unix_messages += count - rows
            if unmeasured:
                self.unmeasured[about[1]] += unmeasured

    def _count_quotas(self, functions: npt.NDArray[Any], tenants: Tenants) -> None:
        """How many quotas of the ring (bpf/common/share.bpf.h) were in use."""
        raised = (functions & KERNEL_FUNCTION_BIT) != 0
        kinds = functions[raised] >> KERNEL_FUNCTION_KIND_SHIFT
        self.calling = len(np.unique(tenants[~raised]))
        by_kind = (tenants[raised][kinds == kind] for kind in np.unique(kinds))
        self.raising = sum(len(np.unique(mine)) for mine in by_kind)

    def _rows(
        self,
        now_ns: int,
        entries: npt.NDArray[np.void],
        changed: Values,
        delta: dict[str, Values],
        buckets: Values,
        longest: Values,
    ) -> Any:
        about = {f: counted(f) for f in set(entries["function"].tolist())}
        functions = entries["function"][changed].tolist()
        told = np.array([about[f] is not None for f in functions], bool)
        whole = ~np.isin(entries["function"], list(self._without))
        there = ((delta["count"] > 0) & whole) | (delta["rows"] > 0)
        rows = changed[there[changed] & told]
        names = [about[f] for f in entries["function"][rows].tolist()]
        # Of the others only their rows are known throughout.
        kept = whole[rows].astype(np.int64)
        unmeasured = delta["unmeasured"][rows] * kept
        per_row = self._histogram.shape[1]
        return pa.table(
            {
                "timestamp_ns": np.full(len(rows), now_ns, np.int64),
                "cgroup_id": owners(self._ledger, entries[rows]),
                "family": pa.array([n[0] for n in names if n], pa.string()),
                "function": pa.array([n[1] for n in names if n], pa.string()),
                "count": delta["count"][rows] * kept,
                "sum_ns": _fitting(delta["sum_ns"][rows] * kept),
                "max_ns": longest[rows] * kept,
                "histogram": pa.ListArray.from_arrays(
                    np.arange(len(rows) + 1, dtype=np.int32) * per_row,
                    (buckets[rows] * kept[:, None]).ravel().astype(np.int64),
                ),
                "bytes": _fitting(delta["bytes"][rows] * kept),
                "unmeasured": pa.array(unmeasured, mask=unmeasured == 0),
                "since_ns": pa.array([self._sampled_ns] * len(rows), pa.int64()),
                "operations": delta["rows"][rows],
            }
        )

    def _leave(self, now_ns: int, entries: npt.NDArray[np.void], delta: dict[str, Values]) -> None:
        """Hand on what was shed and is in no row's weight, nor waits for a row."""
        at = np.flatnonzero((delta["shed"] != 0) | (delta["carried"] != 0))
        events = delta["shed"][at] - delta["carried"][at]
        size = delta["shed_bytes"][at] - delta["carried_bytes"][at]
        since_ns = now_ns if self._sampled_ns is None else self._sampled_ns
        left = zip(
            owners(self._ledger, entries[at]).tolist(),
            entries["function"][at].tolist(),
            events.tolist(),
            size.tolist(),
            strict=True,
        )
        self._left += [Left((since_ns + now_ns) // 2, *each) for each in left]

    def take_left(self) -> list[Left]:
        """What was shed and is in no row's weight, since it was last asked."""
        left, self._left = self._left, []
        return left

    def _forget(
        self,
        names: list[bytes],
        busy: set[int],
        entries: npt.NDArray[np.void],
        payers: Tenants,
    ) -> None:
        """Delete totals of removed cgroups from the kernel's maps: nobody adds to them any more."""
        idle = {
            name: self._idle.get(name, 0) + 1 for at, name in enumerate(names) if at not in busy
        }
        for name in [name for name, readings in idle.items() if readings >= _IDLE_SAMPLES]:
            at = self._places[name]
            entry = entries[at]
            if self.gone(Tally("", *(int(entry[field]) for field in OWNER))):
                spare = name.endswith(_SPARE)
                (self._spare if spare else self._totals).delete(name[: TOTAL_KEY.itemsize])
                self._freed("spare_totals" if spare else "totals", int(payers[at]))
                # Should it come back, it counts from nothing.
                del idle[name], self._places[name]
            else:
                idle[name] = 0
        self._idle = idle

    def gone(self, tally: Tally) -> bool:
        """Whether the tenant's cgroup was removed."""
        if tally.cgroup_id in (NOBODY, UNTOLD):
            return False
        asked = [(tally.hierarchy, tally.cgroup_id)]
        if self._ledger.v1_hierarchy is not None and tally.cgroup_v1_id:
            asked.append((self._ledger.v1_hierarchy, tally.cgroup_v1_id))
        rows = [self._ledger.row(*each) for each in asked]
        return any(row is None or row["removed_ns"] is not None for row in rows)


def _since(
    now: npt.NDArray[Any], then: npt.NDArray[Any], before: Values, known: npt.NDArray[np.bool_]
) -> npt.NDArray[Any]:
    """The increase since the last sample; all of it where there was none."""
    delta = now.copy()
    delta[known] -= then[before[known]]
    return delta


def _hold(sums: Values, delta: npt.NDArray[Any], moving: npt.NDArray[np.bool_]) -> None:
    """Of what is on its way to a total nothing is taken back: it is there the next time."""
    less = moving & (delta < 0)
    sums[less] -= delta[less].astype(sums.dtype)
    delta[less] = 0


def _waiting(cpus: npt.NDArray[np.void], window: int) -> tuple[Values, Values]:
    """Events, and their bytes, that a row of the window that has begun may carry yet."""
    there = cpus["waiting"] >> _WAITING_BITS == np.uint64(window) & _WAITING_MASK
    events = np.where(there, cpus["waiting"] & _WAITING_MASK, 0)
    return (
        events.sum(axis=1).astype(np.int64),
        (events * cpus["waiting_bytes"]).sum(axis=1).astype(np.int64),
    )


def _longest(cpus: npt.NDArray[np.void], window: int) -> Values:
    """The longest call of a window over all CPUs, some of which are in the next already."""
    before = np.where(cpus["previous_window"] == window, cpus["previous_ns"], 0)
    current = np.where(cpus["window"] == window, cpus["max_ns"], before)
    return _fitting(current.max(axis=1, initial=0))


def _fitting(sums: npt.NDArray[Any]) -> Values:
    """The kernel's sums have no sign: what is too large for a column is the largest it holds."""
    return np.minimum(sums.view(np.uint64), _LARGEST).astype(np.int64)
