"""The recorder: drain, name, identify, append, seal; one loop until told to stop."""

import os
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol

from cotenant.agent.channel import Closed
from cotenant.agent.malloc import leave_libraries
from cotenant.agent.node import machine, node_name
from cotenant.agent.protocol.reports import Report
from cotenant.agent.recorder.audit import audit
from cotenant.agent.recorder.blind_spots import BlindSpots
from cotenant.agent.recorder.clock_error import ClockError
from cotenant.agent.recorder.helper_client import HelperClient
from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.ingest.columns import Columns
from cotenant.agent.recorder.ingest.intake import Intake
from cotenant.agent.recorder.map_client import kernel_maps
from cotenant.agent.recorder.overhead.cost_control import CallCost
from cotenant.agent.recorder.processes import demangle
from cotenant.agent.recorder.processes.gpu_processes import GpuProcesses
from cotenant.agent.recorder.progress import Progress
from cotenant.agent.recorder.quotas import told_apart
from cotenant.agent.recorder.report_handlers import Handlers, dispatch, report_handlers
from cotenant.agent.recorder.sampling import Sampling
from cotenant.agent.recorder.sandbox import enter_sandbox, leave_root, open_store
from cotenant.agent.recorder.session_row import SessionRow
from cotenant.agent.recorder.snapshots import Snapshots
from cotenant.agent.recorder.store_maintenance import StoreMaintenance
from cotenant.agent.recorder.store_place import StorePlace
from cotenant.agent.recorder.store_sink import StoreSink
from cotenant.agent.recorder.systemd import SystemdNotifier
from cotenant.agent.recorder.trial import try_out
from cotenant.agent.refusals import Notices
from cotenant.agent.settings import Settings, choose_hierarchy, for_helper, store_group
from cotenant.confine.capabilities import need_root
from cotenant.confine.user import RecorderUser
from cotenant.errors import CotenantError
from cotenant.identity.ledger import Ledger
from cotenant.identity.walk import mounts, survey
from cotenant.probes.cpus import online_cpus
from cotenant.probes.kernel_maps import KernelMaps
from cotenant.store.handover import StoreOwner, hand_over
from cotenant.store.manifest import Machine
from cotenant.store.retention import RetentionLimits

_SAMPLE_EVERY_S: Final = 1.0
_END_NS: Final = 1 << 62


class Waiter(Protocol):
    """Says when to stop."""

    def wait(self, seconds: float, /) -> bool:
        """Sleep for so long, or until it is time to stop; whether it is."""


class Recorder:
    """One recording, from the first probe to the last seal."""

    def __init__(self, settings: Settings, helper: HelperClient) -> None:
        need_root()
        self._settings = settings
        self.node = node = node_name(settings.node, settings.config.node, os.environ)
        this = Machine(machine(), takes_over=settings.adopt)  # In a pod only root can tell.
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        hierarchy = choose_hierarchy(settings.hierarchy)
        self.user = RecorderUser.chosen(settings.user)
        self._place = self._leave_root(self.user)
        with self._place.named():
            self._writer = open_store(self._place.path, node=node, boot_id=boot_id, machine=this)
        # The store is ours by now: only then is anything attached.
        attaching_ns = time.time_ns()
        self._helper = helper
        helper.begin(for_helper(settings, hierarchy))
        self._ledger = Ledger(
            node,
            boot_id,
            v1_hierarchy=hierarchy.number or None,
            preference=hierarchy.preference,
            rules=settings.config.rules,
        )
        self._clock = WallClock()
        self._clock_error = ClockError()
        self._gpus = GpuProcesses(
            f"{node}/{boot_id}", self._ledger, helper, settings.layers, self._clock
        )
        self._intake = Intake(self._ledger, self._gpus, self._clock)
        self._session = SessionRow(
            node=node,
            boot_id=boot_id,
            hierarchy=hierarchy.controller or "v2",
            layers=settings.layers,
            attaching_ns=attaching_ns,
        )
        self._snapshots = Snapshots(self._writer, self._ledger, self._session, self._clock)
        self._heard: list[Report] = []
        self._stopping = False
        self._notices = Notices()

    def _leave_root(self, user: RecorderUser) -> StorePlace:
        """Do what only root can, then be somebody else."""
        settings = self._settings
        owner = StoreOwner(user.uid, user.gid, store_group(settings.group))
        store = hand_over(settings.store, owner)
        self._notify = SystemdNotifier()
        demangle.start(user)
        leave_root(user)
        return StorePlace.reached(settings.store, store)

    @property
    def store(self) -> Path:
        """Where the rows are, for this process."""
        return self._place.path

    @property
    def notices(self) -> list[str]:
        """What could not be attached or went wrong so far, each in one line."""
        return self._notices.lines

    def attach(self) -> None:
        """Place every probe, then give up every privilege."""
        try:
            with self._place.named():
                self._attach()
        except BaseException:
            self._helper.kill()
            self._writer.close()
            raise

    def _attach(self) -> None:
        fds, server, told = self._helper.maps()
        maps = kernel_maps(fds, server)
        self._wire(fds, maps, CallCost(told.cost_ns, told.stepped_ns))
        self._sample_clock()
        # Facts of cgroups flow already: what the walk finds again is the same row.
        survey(self._ledger, hierarchies := mounts(), told_apart(maps))
        # The helper did what needs more rights.
        cgroups = [mount.directory for mount in hierarchies]
        self._session.note(**enter_sandbox(self.store, cgroups))
        self._drain.start()
        excluding = bool(self._settings.config.exclude)
        self.notices.extend(try_out(self._helper, self._drain, excluding=excluding))
        self._session.note(helper_priority=self._helper.ready().priority)
        dispatch(self._handlers, self._helper.take())
        self._sample_clock()
        started_ns = time.time_ns()
        self._session.started(
            now_ns=started_ns, offset_ns=self._clock.offset_ns, method=told.method
        )
        self._gpus.spans.begin(started_ns)
        self._sampling.begin(started_ns)
        self._maintenance.start()
        leave_libraries()
        self._notify.say("READY=1", f"STATUS=recording into {self._settings.store}")

    def _wire(self, fds: dict[str, int], maps: KernelMaps, cost: CallCost) -> None:
        """Everything that works on the kernel's rings and maps."""
        settings = self._settings
        self._notices.measured(cost.emulated_ns, cost.stepped_ns)
        self._drain = self._intake.open(fds, settings.events_bytes)
        self._gpus.attach(maps)
        self._sampling = Sampling(maps, settings, cost, self._ledger, self._gpus, self._helper.ask)
        self._blind_spots = BlindSpots(self._sampling.holes, self._clock)
        self._control = self._sampling.control
        self._sink = StoreSink(self._writer, self._sampling.losses)
        keep_ns, longer_ns = settings.keep_ns, settings.keep_rollups_ns
        limits = RetentionLimits(keep_ns, settings.max_bytes, longer_ns)
        self._maintenance = StoreMaintenance(self._writer, limits)
        self._session.note(**cost.notes(), probes=settings.probes, budget=settings.budget)
        self._session.note(kernel_budget=settings.kernel_budget, net_rows=settings.net_rows)
        self._session.note(cpus=len(online_cpus()))

    def _sample_clock(self) -> None:
        if step := self._clock.sample():
            self._session.clock_set(time.time_ns(), step)
            self._maintenance.clock_was_set()

    def run(self, stop: Waiter, show: Callable[[Progress], None]) -> None:
        """Record until ``stop`` says so, the time is up, or the helper is gone."""
        with self._place.named():
            self._run(stop, show)

    def _run(self, stop: Waiter, show: Callable[[Progress], None]) -> None:
        deadline = time.monotonic() + (self._settings.seconds or float("inf"))
        next_sample = time.monotonic() + _SAMPLE_EVERY_S
        try:
            while not stop.wait(
                min(self._settings.seal_every_s, max(0, deadline - time.monotonic()))
            ):
                self._hear()
                due = time.monotonic() >= next_sample
                self._cycle(sample=due)
                if due:
                    next_sample = time.monotonic() + _SAMPLE_EVERY_S
                show(self.progress())
                if time.monotonic() >= deadline:
                    break
        except BaseException:
            self._helper.kill()
            self._maintenance.stop()
            self._writer.close()
            raise
        self._finish()

    def _hear(self) -> None:
        try:
            self._heard += self._helper.heard()
        except Closed:
            raise CotenantError("the helper died; what was recorded is kept") from None

    @cached_property
    def _handlers(self) -> Handlers:
        """Who hears what the helper reports."""
        return report_handlers(
            self._session,
            self._notices,
            self._sampling.resting,
            self._gpus,
            self._ledger,
            self._blind_spots,
        )

    def _learn(self) -> None:
        """What the helper said."""
        reports, self._heard = self._heard, []
        dispatch(self._handlers, reports)

    def _cycle(self, *, sample: bool) -> None:
        """Everything that came since the last time, into the store."""
        self._place.check()
        self._sample_clock()
        now_ns = time.time_ns()
        if sample:
            self._gpus.look()
        self._drain.catch_up()
        batches = self._intake.take()
        self._look_up(batches)
        self._learn()
        self._intake.keep(batches, self._sink, self._sampling.rollups, self._blind_spots)
        self._snapshots.write(now_ns)
        self._sink.seal(now_ns)
        self._notify.say("WATCHDOG=1")
        if sample:
            self._sample(now_ns)

    def _look_up(self, batches: list[tuple[Columns, Any]]) -> None:
        """What rows lack may be found by the helper, as long as it is there."""
        if not self._stopping:
            try:
                self._gpus.look_up(batches)
                self._heard += self._helper.heard()
            except Closed:
                raise CotenantError("the helper died; what was recorded is kept") from None

    def _sample(self, now_ns: int, *, last: bool = False) -> None:
        sampling = self._sampling
        self._session.clock_error(self._clock_error.look())
        refused = sampling.refused()
        self._blind_spots.counted(sampling.counters.read(), refused, now_ns)
        if refused:
            self._session.note(refused=refused)
        self._sampling.step(now_ns, self._sink, self._session, last=last)
        self._notices.missing(self._sampling.holes.warnings)
        self._session.trouble(
            store=self._place.told(self._sink.trouble),
            upkeep=self._place.told(self._maintenance.trouble),
            untold=self._sink.untold,
            strays=self._drain.strays(),
            names_refused=self._gpus.names.refused,
        )

    def _finish(self) -> None:
        """Detach, take what is left, and seal: after this every event is accounted for."""
        self._notify.say("STOPPING=1")
        try:
            # While the helper can still be asked what the last rows lack.
            self._drain.catch_up()
            self._cycle(sample=False)
            self._stopping = True
            self._control.blind()
            self._heard += self._helper.stop()
            self._notices.lines += self._helper.notices
            self._drain.stop()
            self._maintenance.stop()
            self._cycle(sample=False)
            if not self._sink.seal(time.time_ns(), at_once=True):
                self._sampling.losses.give_up_waiting()
            self._gpus.look()
            self._sampling.finish()
            self._sample(time.time_ns(), last=True)
            self.notices.extend(audit(self._sampling.losses, self._sink, self._session))
            self._session.ended(time.time_ns())
            self._snapshots.write(_END_NS)
            self._writer.seal(time.time_ns())
        finally:
            self._writer.close()
            self._helper.leave()

    def progress(self) -> Progress:
        """Where it stands."""
        return Progress.of(
            self._sampling.losses,
            events=self._intake.events,
            libraries=self._session.libraries,
            trouble=self._place.told(self._sink.trouble),
        )
