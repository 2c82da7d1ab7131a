"""What the recorder does once a second: take samples, bound what probes cost, forget."""

import time
from collections.abc import Callable
from functools import partial
from typing import Final

from cotenant.agent.protocol.requests import Request
from cotenant.agent.recorder.ingest.columns.owner import owners
from cotenant.agent.recorder.ingest.rollups import Rollups
from cotenant.agent.recorder.overhead.control_page import ControlPage
from cotenant.agent.recorder.overhead.cost_control import CallCost, CostControl
from cotenant.agent.recorder.overhead.first_tenants import FirstTenants
from cotenant.agent.recorder.overhead.kernel_cost import KernelCost
from cotenant.agent.recorder.overhead.resting_tenants import RestingTenants
from cotenant.agent.recorder.processes.gpu_processes import GpuProcesses
from cotenant.agent.recorder.program_counters import ProgramCounters, orphans
from cotenant.agent.recorder.quotas import Quotas, told_apart
from cotenant.agent.recorder.samplers.cgroup_limits import CgroupLimits
from cotenant.agent.recorder.samplers.cpu_contention import CpuContention
from cotenant.agent.recorder.samplers.gpu_seconds import GpuSeconds
from cotenant.agent.recorder.samplers.holes import Holes
from cotenant.agent.recorder.samplers.losses import Losses, Tally
from cotenant.agent.recorder.samplers.not_recorded import NotRecorded
from cotenant.agent.recorder.samplers.sampler import RowSink, Sampler, sample_all
from cotenant.agent.recorder.samplers.spans import SpanRows
from cotenant.agent.recorder.samplers.throttle import Throttle
from cotenant.agent.recorder.samplers.totals import Totals
from cotenant.agent.recorder.session_row import SessionRow
from cotenant.agent.settings import Settings
from cotenant.identity.ids import NOBODY, V2
from cotenant.identity.ledger import Ledger
from cotenant.identity.tenant import KERNEL
from cotenant.identity.walk import mounts, survey
from cotenant.probes.kernel import counted
from cotenant.probes.kernel_maps import KernelMaps
from cotenant.probes.tables import RUNTIME_CALLS

# Seconds.
_FORGET_EVERY: Final = 16
_SWEEP_EVERY: Final = 64
_COVERAGE_EVERY: Final = 8
_LATE_NS: Final = 5_000_000_000  # Rows of calls that began before have come.
_FORGET_AFTER_NS: Final = 60_000_000_000


class Sampling:
    """Every sampler of a recording, and what follows from the kernel's totals."""

    def __init__(
        self,
        maps: KernelMaps,
        settings: Settings,
        cost: CallCost,
        ledger: Ledger,
        gpus: GpuProcesses,
        ask: Callable[[Request], None],
    ) -> None:
        self._ledger = ledger
        self._gpus = gpus
        self.losses = Losses(partial(owners, ledger))
        self.holes = Holes(ledger)
        self.rollups = Rollups()
        self._span_rows = SpanRows(gpus.spans, self.losses.gpu_windows)
        self.control = ControlPage(maps["controls"], ring_bytes=settings.events_bytes)
        self.control.kernel_budget(settings.kernel_budget)
        self.resting = RestingTenants(maps["resting"])
        self._cost_control = CostControl(
            self.control, self.resting, settings, cost, ask, self._path
        )
        self.counters = ProgramCounters(maps["counters"])
        self._maps = maps
        self._identities_lost = 0
        self._quotas = Quotas(maps)
        without = RUNTIME_CALLS if settings.layers == "auto" else ()
        end_window, freed = self.control.next_window, self._quotas.freed
        self._totals = Totals(maps, ledger, self.losses, end_window, freed, without)
        self._not_recorded = left = NotRecorded(self.rollups, self._totals.take_left)
        gpu_seconds = GpuSeconds(gpus.spans, self._span_rows, left, ledger, gpus.held)
        host = "host" in settings.events
        on_host: list[Sampler] = []
        if host:
            on_host.append(Throttle(ledger, exclude=settings.config.exclude))
        self._contention: CpuContention | None = None
        if host and "contention" in maps:
            self._contention = CpuContention(
                maps["contention"], ledger, self._gone, self._quotas.freed
            )
            on_host.append(self._contention)
        self._first_tenants = (
            FirstTenants(maps["first_tenants"], self.control) if "first_tenants" in maps else None
        )
        self._kernel_cost = KernelCost(maps["meters"]) if "meters" in maps else None
        self._samplers: list[Sampler] = [
            self._totals,
            self.losses,
            *left.tables,
            self.rollups,
            self._span_rows,
            self._span_rows.mixes,
            *on_host,
            CgroupLimits(ledger),
            *gpus.samplers(),
            gpu_seconds,
            gpu_seconds.overlaps,
        ]
        self._seconds = 0

    def _gone(self, cgroup_id: int, cgroup_v1_id: int) -> bool:
        return self._totals.gone(Tally("", cgroup_id, cgroup_v1_id, V2))

    def begin(self, now_ns: int) -> None:
        """The recording begins."""
        self._totals.begin(now_ns)

    def finish(self) -> None:
        """No more rows come: what waited for some is over."""
        self.rollups.finish()
        self._span_rows.finish()

    def step(self, now_ns: int, sink: RowSink, session: SessionRow, *, last: bool = False) -> None:
        """One second is over; its rows are visible with the next seal."""
        session.trouble(samples=sample_all(self._samplers, self.holes, sink, now_ns))
        self._gpus.note_sharing()
        self._bound_cost(session)
        if self._first_tenants:
            taken = self._contention.taken if self._contention else ()
            self._first_tenants.step(self._totals, taken, time.monotonic())
        counters = self.counters.read()
        self.losses.orphans = orphans(counters)
        session.note(**counters)
        self._survey_anew(counters.get("identity_lost", 0))
        with_processes = last or self._seconds % _COVERAGE_EVERY == 0
        session.layers(self._gpus.layers, processes=with_processes)
        if with_processes:
            spans = self._gpus.spans.counts()
            session.note(spans=spans | {"not_recorded": self._not_recorded.events["cuda"]})
            self._note_kernel_cost(session, now_ns)
            session.spans_until(None if last else self._spanned_ns(now_ns))
        self._seconds += 1
        if self._seconds % _FORGET_EVERY == 0:
            self.losses.forget(self._totals.gone)
            self._ledger.forget(now_ns - _FORGET_AFTER_NS)
        if self._seconds % _SWEEP_EVERY == 0:
            self._gpus.sweep()

    def _survey_anew(self, lost: int) -> None:
        """Cgroups whose birth or end was lost are found by walking all of them."""
        if lost != self._identities_lost:
            self._identities_lost = lost
            survey(self._ledger, mounts(), told_apart(self._maps))

    def _spanned_ns(self, now_ns: int) -> int:
        """Operations that began before are in spans that were written."""
        oldest_ns = self._gpus.spans.oldest_ns()
        late_ns = now_ns - _LATE_NS
        return late_ns if oldest_ns is None else min(oldest_ns, late_ns)

    def refused(self) -> dict[str, dict[str, int]]:
        """What tenants had no room for so far: by map, and by the path of the outermost cgroup.

        To be asked once a second: a cgroup that is not known yet may be the next time.
        """
        found = self._quotas.refused(self._tenant_at)
        if contexts := self._gpus.devices.refused:
            found["contexts"] = dict(contexts)
        if graphs := self._gpus.graphs.refused:
            found["graphs"] = dict(graphs)
        if communicators := self._gpus.communicators.refused:
            found["communicators"] = dict(communicators)
        if missed := self._gpus.communicators.missed:
            found["communicators_missed"] = dict(missed)
        if mangled := self._gpus.names.mangled:
            found["mangled"] = dict(mangled)
        if spans := self._gpus.spans.refused():
            found["spans"] = spans
        return found

    def _bound_cost(self, session: SessionRow) -> None:
        control = self._cost_control
        storms = control.step(self._totals, time.monotonic(), stepped=session.stepped)
        names = [
            f"{(counted(storm.function) or ('', '?'))[1]} by {self._path(storm.owner) or '?'}"
            for storm in storms
        ]
        session.storms(names, time.time_ns(), control.entry_ns)
        session.over_budget(self._totals.unmeasured)

    def _note_kernel_cost(self, session: SessionRow, now_ns: int) -> None:
        """What kernel events cost, and what was left to totals for it."""
        if self._kernel_cost:
            left = {
                "over_budget": dict(self._totals.withheld),
                "unix_messages": self._totals.unix_messages,
            }
            session.note(kernel_cost=self._kernel_cost.notes(now_ns), left_to_totals=left)

    def _path(self, owner: Tally) -> str | None:
        return self._where(owner.hierarchy, owner.cgroup_id)

    def _tenant_at(self, hierarchy: int, kernel_id: int) -> str:
        """Where a tenant's outermost cgroup is; the kernel has none."""
        return KERNEL if kernel_id == NOBODY else self._where(hierarchy, kernel_id) or ""

    def _where(self, hierarchy: int, kernel_id: int) -> str | None:
        """Where a cgroup is."""
        row = self._ledger.row(hierarchy, kernel_id)
        return str(row["cgroup_path"]) if row and row["cgroup_path"] else None
