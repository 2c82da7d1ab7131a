"""Tenants whose rows come first: those with a GPU, and those that took something from them.

See bpf/kernel/meter.bpf.h. Which they are is decided once a second, by what was counted in it:

    host     the tenant ran for 10 ms while a thread of a GPU tenant waited for that CPU
    io       a GPU tenant had requests, and the tenant a tenth of all
    net, tcp a GPU tenant's segments were sent again, and the tenant had a tenth of all messages
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from cotenant.agent.recorder.overhead.budget import Calls
from cotenant.agent.recorder.overhead.control_page import ControlPage
from cotenant.agent.recorder.samplers.losses import Tally
from cotenant.identity.ids import NOBODY
from cotenant.probes.kernel import kernel_function
from cotenant.probes.kernel_maps import KernelMap
from cotenant.schema.constants import MAPS, TENANT_HOST
from cotenant.schema.events import RECORDS
from cotenant.schema.families import GPU_FAMILIES, KERNEL_FAMILIES

_KINDS: Final = {record.family: kind for kind, record in RECORDS.items()}
_TAKEN_NS: Final = 10_000_000  # Of a CPU in a second.
_PART: Final = 0.1  # Of all requests, or of all messages.
_RETRANSMIT: Final = kernel_function("tcp", "retransmit")
_KEPT_S: Final = 30.0
_MOST: Final = 512  # Half of what the map holds; the other half is for tenants with a GPU.
_ALL: Final = sum(1 << _KINDS[family] for family in KERNEL_FAMILIES)


class CpuTaken(NamedTuple):
    """How long one tenant's cgroup had a CPU that another tenant waited for, in a second."""

    tenant: int  # That waited.
    cgroup_id: int  # That ran.
    cgroup_v1_id: int
    waited_ns: int


class CountedTotals(Protocol):
    """Who did what in the second that is over."""

    @property
    def calls(self) -> Calls:
        """Per tenant and function: how many, and those that were counted at entry only."""

    @property
    def tenants(self) -> Mapping[Tally, int]:
        """Whose they are, by the programs' number of the tenant."""


def _key(tally: Tally, tenant: int) -> int:
    """As the programs look it up: the host's cgroups stand for themselves."""
    return tally.cgroup_id if tenant == TENANT_HOST else tenant


class FirstTenants:
    """Writes them where the programs look."""

    def __init__(self, told: KernelMap, page: ControlPage) -> None:
        self._told = told
        self._page = page
        self._gpu: dict[int, None] = {}  # The last one that called comes last.
        self._until: dict[tuple[int, str], float] = {}
        self._written: dict[int, int] = {}

    def step(self, totals: CountedTotals, taken: Iterable[CpuTaken], now: float) -> None:
        """One second is over."""
        keys = {tally: _key(tally, tenant) for tally, tenant in totals.tenants.items()}
        for key in {key for tally, key in keys.items() if tally.family in GPU_FAMILIES}:
            self._gpu.pop(key, None)
            self._gpu[key] = None
        while len(self._gpu) > _MOST:
            del self._gpu[next(iter(self._gpu))]
        found = self._of_cpus(keys, taken)
        counts = self._counts(keys, totals.calls)
        if any(key in self._gpu for key in counts["io"]):
            found |= {(key, "io") for key in _large(counts["io"])}
        if any(key in self._gpu for key in counts["tcp retransmit"]):
            found |= {(key, family) for key in _large(counts["net"]) for family in ("net", "tcp")}
        for key, family in found:
            if key not in self._gpu and key != NOBODY:
                self._until[key, family] = now + _KEPT_S
        newest = sorted(self._until.items(), key=lambda item: -item[1])[:_MOST]
        self._until = {which: until for which, until in newest if until > now}
        self._write()

    def _of_cpus(
        self, keys: Mapping[Tally, int], taken: Iterable[CpuTaken]
    ) -> set[tuple[int, str]]:
        by_cgroup = {tally[1:3]: key for tally, key in keys.items() if tally.family == "host"}
        sums: Counter[int] = Counter()
        for one in taken:
            if one.tenant in self._gpu:
                sums[by_cgroup.get((one.cgroup_id, one.cgroup_v1_id), NOBODY)] += one.waited_ns
        return {(key, "host") for key, waited_ns in sums.items() if waited_ns >= _TAKEN_NS}

    def _counts(self, keys: Mapping[Tally, int], calls: Calls) -> dict[str, Counter[int]]:
        """Requests, messages and retransmits of this second, by tenant."""
        counts: dict[str, Counter[int]] = {
            "io": Counter(), "net": Counter(), "tcp retransmit": Counter(),
        }  # fmt: skip
        for (tally, function), (count, _) in calls.items():
            name = "tcp retransmit" if function == _RETRANSMIT else tally.family
            if name in counts and tally in keys:
                counts[name][keys[tally]] += count
        return counts

    def _write(self) -> None:
        kinds = Counter(dict.fromkeys(self._gpu, _ALL))
        for key, family in self._until:
            kinds[key] |= 1 << _KINDS[family]
        if kinds == self._written:
            return
        key_bytes, value_bytes = MAPS["first_tenants"]
        for key in self._written.keys() - kinds.keys():
            self._told.delete(key.to_bytes(key_bytes, "little"))
        for key, bits in kinds.items():
            self._told.update(
                key.to_bytes(key_bytes, "little"), bits.to_bytes(value_bytes, "little")
            )
        self._written = dict(kinds)
        self._page.another_first()


def _large(counts: Counter[int]) -> list[int]:
    """Tenants with a tenth of all."""
    return [key for key, count in counts.items() if count >= _PART * counts.total()]
