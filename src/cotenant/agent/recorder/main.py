"""The recorder: drain, name, identify, append, seal; one loop until told to stop."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cotenant.agent.channel import Closed, Message, slices
from cotenant.agent.recorder.helper_client import HelperClient
from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.ingest.columns import Columns, Maker
from cotenant.agent.recorder.ingest.columns.communicator import (
    CollectiveBytesColumn,
    MembershipColumn,
)
from cotenant.agent.recorder.ingest.columns.endpoint import AddressColumn, EndpointColumn
from cotenant.agent.recorder.ingest.columns.kernel import FunctionColumn
from cotenant.agent.recorder.ingest.columns.owner import owners
from cotenant.agent.recorder.ingest.columns.plain import (
    CopyColumn,
    EnumColumn,
    NullColumn,
    TimeColumn,
)
from cotenant.agent.recorder.ingest.columns.tenant import TenantColumn
from cotenant.agent.recorder.ingest.drain import Drain
from cotenant.agent.recorder.ingest.facts import Facts
from cotenant.agent.recorder.ingest.rollups import Rollups
from cotenant.agent.recorder.load.budget import Budget
from cotenant.agent.recorder.load.control_page import ControlPage, capabilities_to_read
from cotenant.agent.recorder.processes import demangle
from cotenant.agent.recorder.processes.communicators import Communicators
from cotenant.agent.recorder.processes.gpu_processes import GpuProcesses
from cotenant.agent.recorder.samplers.cgroup_limits import CgroupLimits
from cotenant.agent.recorder.samplers.containers import Containers
from cotenant.agent.recorder.samplers.throttle import Throttle
from cotenant.agent.recorder.samplers.totals import Totals
from cotenant.agent.recorder.session_row import SessionRow
from cotenant.agent.recorder.store_maintenance import StoreMaintenance
from cotenant.agent.recorder.store_sink import StoreSink
from cotenant.agent.recorder.systemd import SystemdNotifier
from cotenant.agent.recorder.trial import try_out
from cotenant.agent.refusals import Notices
from cotenant.agent.settings import Settings, choose_hierarchy, for_helper, store_group
from cotenant.confine.capabilities import drop_capabilities, need_root
from cotenant.confine.landlock import confine_writes
from cotenant.confine.seccomp import refuse_calls
from cotenant.errors import CotenantError
from cotenant.identity.ledger import Ledger
from cotenant.identity.naming.names import Names
from cotenant.identity.walk import mounts, survey
from cotenant.probes.programs import FACTS_RING_BYTES, NAMES_RING_BYTES
from cotenant.schema.events import RECORDS
from cotenant.store import retention
from cotenant.store.writer import StoreWriter

_TOTALS_EVERY_S: Final = 1.0
# Readings of the totals.
_FORGET_EVERY: Final = 16
_COVERAGE_EVERY: Final = 8
_FORGET_AFTER_NS: Final = 60_000_000_000
_END_NS: Final = 1 << 62
_UMASK: Final = 0o027  # The store's modes come out as they should: none can be changed later.


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a recording stands, for whoever shows it."""

    events: int
    tenants: int
    lost: int
    libraries: int
    trouble: str | None = None


class Recorder:
    """One recording, from the first probe to the last seal."""

    def __init__(self, settings: Settings, helper: HelperClient) -> None:
        need_root()
        self._settings = settings
        self.node = os.uname().nodename
        self.boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        hierarchy = choose_hierarchy(settings.hierarchy)
        self._writer = StoreWriter(
            settings.store, node=self.node, boot_id=self.boot_id, gid=store_group(settings.group)
        )
        # The store is ours by now: only then is anything attached.
        self._helper = helper
        helper.begin(for_helper(settings, hierarchy))
        self._ledger = Ledger(
            self.node,
            self.boot_id,
            v1_hierarchy=hierarchy.number or None,
            preference=hierarchy.preference,
            rules=settings.config.rules,
        )
        self._containers = Containers(self._ledger, self._writer)
        self._communicators = Communicators()
        self._gpus = GpuProcesses(
            f"{self.node}/{self.boot_id}",
            self._ledger,
            self._communicators,
            self._helper,
            settings.layers,
        )
        self._facts = Facts(self._ledger, self._gpus.names, self._communicators)
        self._facts.add(self._gpus.handlers(), self._gpus.gone)
        self._clock = WallClock()
        self._session = SessionRow(
            node=self.node,
            boot_id=self.boot_id,
            hierarchy=hierarchy.controller or "v2",
            layers=settings.layers,
        )
        self._heard: list[Message] = []
        self._stopping = False
        self._named_before: list[Message] = []
        self._notices = Notices()
        self._cost_ns = (0.0, 0.0)  # Of a recorded call: emulated, single-stepped.
        self._events = self._offset_ns = self._readings = 0
        self._resting: set[int] = set()

    @property
    def notices(self) -> list[str]:
        """What could not be attached or went wrong so far, each in one line."""
        return self._notices.lines

    def attach(self) -> None:
        """Place every probe, then give up every privilege."""
        try:
            self._notify = SystemdNotifier()
            maps, told = self._helper.maps()
            self._cost_ns = told["cost_ns"], told["stepped_ns"]
            self._notices.measured(*self._cost_ns)
            rows = maps["events"], self._settings.events_bytes
            facts = maps["facts"], FACTS_RING_BYTES
            self._drain = Drain(rows, facts, (maps["names"], NAMES_RING_BYTES))
            for kind, record in RECORDS.items():
                self._drain.expect(kind, Columns(record, self._makers()))
            self._totals = Totals(maps, self._ledger)
            self._keeper = StoreSink(self._writer, self._totals.losses)
            self._upkeep = StoreMaintenance(
                self._writer,
                retention.RetentionLimits(self._settings.keep_ns, self._settings.max_bytes),
            )
            self._rollups = Rollups()
            self._control = ControlPage(maps["controls"], ring_bytes=self._settings.events_bytes)
            self._budget = Budget(
                self._settings.budget, self._cost_ns[0], self._settings.budget_rest_s
            )
            self._control.budget(self._budget.calls)
            self._session.note(
                call_cost_ns=round(told["cost_ns"]),
                stepped_call_cost_ns=round(told["stepped_ns"]),
                probes=self._settings.probes,
                budget=self._settings.budget,
            )
            self._gpus.attach(maps)
            self._limits = CgroupLimits(self._ledger)
            exclude, events = self._settings.config.exclude, self._settings.events
            self._throttle = Throttle(self._ledger, exclude=exclude) if "host" in events else None
            self._sample_clock()
            # Facts of cgroups flow already: what the walk finds again is the same row.
            survey(self._ledger, mounts())
            # Threads that come later inherit what is left; the helper did what needs more.
            kept = capabilities_to_read(maps["controls"])
            drop_capabilities(kept)
            self._session.note(recorder_capabilities=[each.name for each in kept])
            os.umask(_UMASK)
            self._session.note(
                landlock=confine_writes(self._settings.store), seccomp=refuse_calls(recorder=True)
            )
            demangle.start()  # Without rights, as we are by now.
            self._drain.start()
            self.notices.extend(try_out(self._helper, self._drain, excluding=bool(exclude)))
            self._helper.ready()
            self._notices.hear(self._helper.messages)
            self._sample_clock()
            self._session.started(
                now_ns=time.time_ns(), offset_ns=self._offset_ns, method=told["method"]
            )
            self._upkeep.start()
            self._notify.say("READY=1", f"STATUS=recording into {self._settings.store}")
        except BaseException:
            self._helper.kill()
            self._writer.close()
            raise

    def _makers(self) -> dict[str, Maker]:
        return {
            "copy": CopyColumn(),
            "time": TimeColumn(self._clock),
            "cgroup": TenantColumn(self._ledger),
            "enum": EnumColumn(),
            "address": AddressColumn(),
            "endpoint": EndpointColumn(),
            "function": FunctionColumn(),
            "null": NullColumn(),
            **self._gpus.makers(),
            "comm": MembershipColumn(self._communicators),
            "nccl_bytes": CollectiveBytesColumn(self._communicators),
        }

    def _sample_clock(self) -> None:
        step = self._clock.sample()
        self._offset_ns = self._clock.offset_ns
        if step:
            self._session.clock_set(time.time_ns(), step)
            self._upkeep.clock_was_set()
        self._facts.offset_ns = self._offset_ns

    def run(self, stop: threading.Event, show: Callable[[Progress], None]) -> None:
        """Record until ``stop`` is set, the time is up, or the helper is gone."""
        deadline = time.monotonic() + (self._settings.seconds or float("inf"))
        next_totals = time.monotonic() + _TOTALS_EVERY_S
        try:
            while not stop.wait(
                min(self._settings.seal_every_s, max(0, deadline - time.monotonic()))
            ):
                self._hear()
                due = time.monotonic() >= next_totals
                self._cycle(totals=due)
                if due:
                    next_totals = time.monotonic() + _TOTALS_EVERY_S
                show(self.progress())
                if time.monotonic() >= deadline:
                    break
        except BaseException:
            self._helper.kill()
            self._upkeep.stop()
            self._writer.close()
            raise
        self._finish()

    def _hear(self) -> None:
        try:
            self._heard += self._helper.heard()
            self._ask_for_names()
        except Closed:
            raise CotenantError("the attaching process died; what was recorded is kept") from None

    def _learn(self) -> None:
        """What the helper said. A name may overtake the birth it belongs to: it is told twice."""
        self._session.hear(self._heard)
        self._notices.hear(self._heard)
        self._control.hear(self._heard)
        named = [message for message in self._heard if message["type"] == "named"]
        for message in (*self._named_before, *named):
            names = Names.from_json(message["names"])
            self._ledger.named(message["key"], names, message["named_ns"])
        self._named_before, self._heard = named, []

    def _ask_for_names(self) -> None:
        """The helper asks about new cgroups by itself; here are those that were there before."""
        paths = [question.path for question in self._ledger.take_questions()]
        for part in slices(paths):
            self._helper.ask({"type": "name", "paths": part})

    def _cycle(self, *, totals: bool) -> None:
        """Everything that came since the last time, into the store."""
        self._sample_clock()
        now_ns = time.time_ns()
        if totals:
            self._gpus.look()
            self._drain.catch_up()
        facts, batches = self._drain.take()
        self._facts.take(facts)
        self._look_up(batches)
        self._learn()
        for columns, batch in batches:
            rows = columns.make(batch)
            if self._keeper.keep(columns, batch, rows):
                self._rollups.add(columns.family, batch, rows)
            self._events += batch.rows
        self._snapshots(now_ns)
        self._keeper.seal(now_ns)
        self._notify.say("WATCHDOG=1")
        if totals:
            self._tell_totals(now_ns)

    def _look_up(self, batches: list[tuple[Columns, Any]]) -> None:
        """What rows lack may be found by the helper, as long as it is there."""
        if not self._stopping:
            try:
                self._gpus.look_up(batches)
                self._heard += self._helper.heard()
            except Closed:
                raise CotenantError(
                    "the attaching process died; what was recorded is kept"
                ) from None
        self._gpus.hear(self._heard)

    def _tell_totals(self, now_ns: int, *, last: bool = False) -> None:
        """What was counted and what became of it; visible with the next seal."""
        over = self._control.next_window()
        self._keeper.append("totals", self._totals.read(now_ns, over))
        losses = self._totals.losses
        self._keeper.append("losses", losses.table(now_ns, self._owners))
        self._add("rollups", self._rollups.take(_END_NS if last else now_ns))
        self._add("host_events", self._throttle.sample(now_ns) if self._throttle else None)
        self._add("limits", self._limits.sample(now_ns))
        self._gpus.write(self._keeper, now_ns, self._clock)
        self._control.divide(self._totals.calling, self._totals.raising)
        self._spend()
        counters = self._totals.counters()
        sent = counters.get("orphan_rows", 0) - counters.get("orphan_lost", 0)
        losses.orphans = sent - counters.get("orphan_shed", 0)
        self._session.note(**counters)
        told = last or self._readings % _COVERAGE_EVERY == 0
        self._session.layers(self._gpus.layers, processes=told)
        self._session.trouble(
            store=self._keeper.trouble,
            upkeep=self._upkeep.trouble,
            untold=self._keeper.untold,
            strays=self._drain.strays(),
            names_refused=self._gpus.names.refused,
        )
        self._readings += 1
        if self._readings % _FORGET_EVERY == 0:
            losses.forget(self._totals.gone)
            self._ledger.forget(now_ns - _FORGET_AFTER_NS)

    def _add(self, table: str, rows: Any | None) -> None:
        if rows is not None:
            self._keeper.append(table, rows)

    def _owners(self, entries: Any) -> Any:
        return owners(self._ledger, entries)

    def _spend(self) -> None:
        """Probes that cost too much rest, and come back."""
        if self._session.stepped and self._budget.cost_ns < self._cost_ns[1]:
            # Whose calls are dear is not known call by call: everybody's are taken to be.
            self._budget.cost_ns = self._cost_ns[1]
            self._control.budget(self._budget.calls)
        gone, back = self._budget.look(self._totals.calls, time.monotonic())
        if gone or back:
            self._resting = (self._resting | set(gone)) - set(back)
            self._helper.ask(self._control.rest(self._resting))
            for function in (*gone, *back):
                self._session.rested(function, time.time_ns(), resting=function in gone)
        self._session.over_budget(self._totals.unmeasured)

    def _snapshots(self, now_ns: int) -> None:
        self._containers.write(now_ns)
        if self._session.changed:
            self._writer.replace("sessions", self._session.table(self._offset_ns))

    def _finish(self) -> None:
        """Detach, take what is left, and seal: after this every event is accounted for."""
        self._notify.say("STOPPING=1")
        try:
            # While the helper can still be asked what the last rows lack.
            self._drain.catch_up()
            self._cycle(totals=False)
            self._stopping = True
            self._control.blind()
            self._heard += self._helper.stop()
            self._notices.lines += self._helper.notices
            self._drain.stop()
            self._upkeep.stop()
            self._cycle(totals=False)
            if not self._keeper.seal(time.time_ns(), at_once=True):
                self._totals.losses.give_up_waiting()
            self._gpus.look()
            self._tell_totals(time.time_ns(), last=True)
            self._check()
            self._session.ended(time.time_ns())
            self._snapshots(_END_NS)
            self._writer.seal(time.time_ns())
        finally:
            self._writer.close()

    def _check(self) -> None:
        """Every event is stored, shed or lost: say so where it is not."""
        off = self._totals.losses.imbalance()
        if off:
            self.notices.append(
                f"{sum(map(abs, off.values()))} events are unaccounted for; see notes in sessions"
            )
            self._session.note(imbalance={" ".join(map(str, t)): n for t, n in off.items()})
        if self._keeper.miscounted:
            self.notices.append(f"the store sealed {self._keeper.miscounted:+d} rows too many")
            self._session.note(miscounted=self._keeper.miscounted)

    def progress(self) -> Progress:
        """Where it stands."""
        losses = self._totals.losses
        return Progress(
            events=self._events,
            tenants=len({tally[1:] for tally in losses.stored}),
            lost=losses.total("lost") + losses.total("shed"),
            libraries=self._session.libraries,
            trouble=self._keeper.trouble,
        )
