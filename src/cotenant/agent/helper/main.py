"""The privileged half: loads programs, finds libraries, places probes, asks runtimes.

When its socket closes, because the recorder stopped or died, it exits, and the keeper removes its
probes. It stores nothing and decides nothing about rows.
"""

import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby, islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from cotenant._native import Ring
from cotenant.agent.channel import Closed, MessageTooLarge
from cotenant.agent.helper.attachments import Attachments
from cotenant.agent.helper.births import Births
from cotenant.agent.helper.discovery.mmap_events import MmapEvents
from cotenant.agent.helper.discovery.mounts import MountWatch, mount_namespace
from cotenant.agent.helper.discovery.scheduler import DiscoveryScheduler
from cotenant.agent.helper.exclusion import Exclusion
from cotenant.agent.helper.fair_queue import PassedOver, tenant_of
from cotenant.agent.helper.files.elf_files import ElfFiles, answer
from cotenant.agent.helper.files.readers import Readers
from cotenant.agent.helper.hang_up import leave_with_recorder
from cotenant.agent.helper.keeper import Keeper
from cotenant.agent.helper.libraries.libraries import Libraries
from cotenant.agent.helper.libraries.pointers import Pointers
from cotenant.agent.helper.libraries.prober import Prober
from cotenant.agent.helper.map_server import MapServer
from cotenant.agent.helper.misses import Misses
from cotenant.agent.helper.naming import Naming
from cotenant.agent.helper.priority import Priority
from cotenant.agent.helper.processes.inspector import Inspector
from cotenant.agent.helper.processes.reported import Reported
from cotenant.agent.helper.tenants import Tenants
from cotenant.agent.helper.trial_probe import TrialProbe
from cotenant.agent.helper.turns import Turns
from cotenant.agent.malloc import give_back_memory, leave_libraries, share_memory
from cotenant.agent.process import Process
from cotenant.agent.protocol.link import HelperLink, helper_link
from cotenant.agent.protocol.reports import (
    LINE_MAX,
    Failed,
    HooksRefused,
    MapsShared,
    Ready,
    Report,
    TrialReady,
    Trouble,
)
from cotenant.agent.protocol.requests import (
    Begin,
    ChooseLayers,
    FollowPointers,
    HandedOut,
    HelperSettings,
    Inspect,
    Rest,
    Stop,
    TrialDone,
)
from cotenant.confine.capabilities import Capability, allow_descriptors, drop_capabilities
from cotenant.confine.seccomp import Role, refuse_calls
from cotenant.errors import CotenantError
from cotenant.identity import Names
from cotenant.probes import syscalls
from cotenant.probes.attach import Method
from cotenant.probes.code_mappings import CodeMappings
from cotenant.probes.features import attempt, choose_method, choose_stepping
from cotenant.probes.function import Function, Library
from cotenant.probes.hooks import place, together
from cotenant.probes.perf import Ticks, open_ticks
from cotenant.probes.programs import (
    TASK_PROGRAMS,
    Programs,
    Sizes,
    load_programs,
    unread_ring_bytes,
)
from cotenant.probes.sites import Stepping
from cotenant.probes.tables import FUNCTIONS, RUNTIME_CALLS
from cotenant.schema.families import GPU_FAMILIES, KERNEL_FAMILIES
from cotenant.schema.kinds import FACT_KIND
from cotenant.schema.layouts import UNREAD

# Maps that the recorder reads or writes; it gets copies of their descriptors.
SHARED_MAPS: Final = (
    "events", "identities", "facts", "names", "totals", "spare_totals", "counters", "controls",
    "holdings", "tenants", "told", "usage", "freed", "resting", "processes",
)  # fmt: skip
# Those of families that may not be recorded.
FAMILY_MAPS: Final = ("contention", "callers", "first_tenants", "meters")

NCCL: Final = "nccl"

_POINTERS_AT_ONCE: Final = 64
_DESCRIPTORS: Final = 65536


def kept_capabilities(method: str) -> set[Capability]:
    """What placing probes takes; perf events on functions of others take everything."""
    needless = {Capability.SETUID}
    return set(Capability) - (
        needless if method == Method.PAIR else needless | {Capability.SYS_ADMIN}
    )


def _pid_of(pointer: HandedOut) -> int:
    return pointer.process.pid


def _wanted_functions(settings: HelperSettings) -> tuple[Function, ...]:
    layers = settings.layers
    events = set(settings.events)
    return tuple(
        f
        for f in FUNCTIONS
        if (layers != "driver" or f.library is not Library.CUDART or f.fact)
        and (NCCL in events if f.family == NCCL else not events.isdisjoint(GPU_FAMILIES))
    )


def by_process(records: npt.NDArray[np.void]) -> Iterator[tuple[Process, npt.NDArray[np.void]]]:
    """Records of each process, in their order; a pid may be another one's in the midst of them."""
    pids, starts = records["pid"], records["process_start_ns"]
    order = np.lexsort((starts, pids))
    new = (np.diff(pids[order]) != 0) | (np.diff(starts[order]) != 0)
    for mine in np.split(records[order], np.flatnonzero(new) + 1):
        yield Process.of(mine[0]), mine


class Helper:
    """Serves one recorder until it hangs up."""

    def __init__(
        self, link: HelperLink, settings: HelperSettings, files: ElfFiles, keeper: Keeper
    ) -> None:
        self._link = link
        self._attachments = Attachments(keeper, self._tell)
        self._trial = settings.trial
        self._sizes = Sizes(events_bytes=settings.events_bytes)
        self._method = choose_method(settings.attach, self._attachments.door)
        stepping = choose_stepping(settings.probes, self._method, self._attachments.door)
        allow_descriptors(_DESCRIPTORS)
        # Distributions may let nobody else than CAP_SYS_ADMIN open perf events.
        self._watch = MmapEvents()
        ticks = open_ticks()
        drop_capabilities(kept_capabilities(self._method))
        sys.dont_write_bytecode = True  # A file half made could not even be removed any more.
        refuse_calls(Role.HELPER)
        self._functions = _wanted_functions(settings)
        self._load(settings, ticks)
        self._unread = Ring(self._programs.maps["unread"], unread_ring_bytes(), 0)
        self._mounts = MountWatch()
        self._attacher = self._attachments.attacher(Method(self._method), self._programs)
        self._passed_over = PassedOver()
        self._priority = Priority()
        self._find_libraries(settings, files, stepping)
        self._calls = syscalls.iterator_link(self._programs.programs["calls_under_way"])
        self._sweep = syscalls.iterator_link(self._programs.programs["sweep"])
        self._reported = Reported(self._programs.maps["processes"])
        self._inspector = Inspector(self._tell, self._passed_over, self._reported, files)
        self._exclusion = Exclusion(
            self._programs.maps["excluded"],
            self._programs.maps["controls"],
            settings.config,
            self._passed_over,
        )
        self._naming = Naming(self._tell, self._name)
        self._misses = Misses(self._programs.programs, self._programs.maps, self._tell)
        self._births = Births(
            Ring(self._programs.maps["births"], self._sizes.facts_bytes, FACT_KIND),
            self._sizes.facts_bytes,
            self._tenants,
            self._exclusion,
            self._naming,
            self._discovery,
        )
        self._handlers: dict[type, Callable[[Any], None]] = {
            Inspect: self._inspector.ask,
            FollowPointers: self._follow_pointers,
            ChooseLayers: self._choose_layers,
            Rest: self._discovery.rest,
            Stop: self._stop,
            Trouble: self._tell,  # The recorder sent what is no request: it takes the note.
        }

    def _find_libraries(
        self, settings: HelperSettings, files: ElfFiles, stepping: Stepping
    ) -> None:
        """Whatever finds libraries, and places probes in them."""
        programs = self._programs.programs
        code = CodeMappings(programs["code_mappings"], self._attachments.locks)
        self._libraries = Libraries(
            Prober(self._attacher, code),
            partial(files.plan, functions=self._functions, stepping=stepping),
            programs["file_mappings"],
            self._tell,
            self._passed_over,
        )
        self._discovery = DiscoveryScheduler(
            self._libraries, code, self._tell, self._passed_over, records=self._watch
        )
        self._pointers = Pointers(
            self._libraries, self._attacher, self._functions, code, self._tell, files
        )
        self._discovery.when_swept(self._pointers.sweep)
        # What it took to read somebody's big library is not kept for ever.
        self._discovery.when_swept(lambda _: give_back_memory())

    def _load(self, settings: HelperSettings, ticks: Ticks) -> None:
        """Programs into the kernel, and those of the kernel's own events onto their hooks."""
        families = [family for family in KERNEL_FAMILIES if family in settings.events]
        constants = {**settings.constants, "home_mounts": mount_namespace()}
        self._programs: Programs = load_programs(
            self._method, self._functions, self._sizes, constants, optional=together(families)
        )
        self._tracepoints = [
            syscalls.attach_tracepoint(self._programs.programs[name]) for name in TASK_PROGRAMS
        ]
        self._tenants = Tenants(self._programs.maps)
        self._tenants.survey()
        self._hooks = place(self._programs, families, self._sizes, constants, ticks)
        ticks.close()
        if self._watch.refused is not None:
            self._hooks.refused["mappings"] = (
                f"not seen: libraries that nobody has mapped yet ({self._watch.refused})"
            )

    def _name(self, key: str, names: Names) -> None:
        self._exclusion.named(key, names)
        self._tenants.named(key, names)

    def _tell(self, report: Report) -> None:
        try:
            self._link.send(report)
        except MessageTooLarge as error:
            self._link.send(Trouble.by("channel", error))

    def run(self) -> None:
        """Attach, announce, and follow until the recorder hangs up or says stop."""
        shared = {name: self._programs.maps[name] for name in SHARED_MAPS}
        shared |= {name: fd for name, fd in self._programs.maps.items() if name in FAMILY_MAPS}
        shared["calls_under_way"] = self._calls
        shared["sweep"] = self._sweep
        costs = attempt(self._method, self._attachments.door)
        server = MapServer(shared)
        self._link.send(
            MapsShared(tuple(shared), self._method, costs.cost_ns, costs.stepped_ns),
            [*shared.values(), server.theirs],
        )
        server.start()
        if self._hooks.refused:
            self._tell(HooksRefused(self._hooks.refused))
        if not self._trial:
            self._try_out()
        if self._functions and not self._trial:
            self._discovery.start()
            self._discovery.scan()
        self._naming.start()
        if not self._trial:
            self._naming.survey()
        self._inspector.start()
        self._libraries.gaps.begin()
        self._priority.take()
        leave_libraries()
        self._tell(Ready(self._priority.kind))
        turns = Turns()
        turns.wake_on(self._link.fileno(), self._programs.maps["unread"], *self._watch.fds)
        turns.wake_on(self._programs.maps["births"], patient=True)
        turns.wake_on(self._mounts.fd, events=select.POLLPRI)
        if self._libraries.rewrites.fd >= 0:
            turns.wake_on(self._libraries.rewrites.fd)
        while True:
            newcomers = self._discovery.newcomers
            ready = turns.next(min(newcomers.patience_s(), self._watch.patience_s()))
            if self._mounts.fd in ready and (layers := self._mounts.new()):
                self._discovery.mounted(layers)
            self._births.follow()
            self._follow_unread()
            if self._libraries.rewrites.fd in ready:
                self._discovery.follow_rewrites()
            newcomers.tend()
            self._discovery.follow(self._watch)
            if turns.may_tend():
                self._tend()
            if self._link.fileno() in ready and not self._answer():
                server.wait()
                return

    def _tend(self) -> None:
        self._discovery.tend()
        self._inspector.tend()
        self._priority.tend()
        self._libraries.gaps.tell_unprobed()
        self._tenants.tend()
        self._misses.tend()
        self._attachments.poll()
        if news := self._passed_over.take_news():
            self._tell(news)

    def _try_out(self) -> None:
        """Have the recorder see a call of its own, before anybody else's can come."""
        families = {function.family for function in self._functions}
        trial = TrialProbe(self._attacher, self._programs, families)
        self._link.send(TrialReady(tuple(trial.families)))
        while (received := self._link.receive()) and not isinstance(received[0], TrialDone):
            pass
        trial.close()

    def _answer(self) -> bool:
        """Do what the recorder asks; false when it is time to go."""
        received = self._link.receive(0)
        if received is None:
            return True
        message, _ = received
        if handle := self._handlers.get(type(message)):
            handle(message)
        return not isinstance(message, Stop)

    def _choose_layers(self, request: ChooseLayers) -> None:
        spare = frozenset() if request.runtime else RUNTIME_CALLS
        self._discovery.do(partial(self._libraries.spare, spare))

    def _stop(self, _: Stop) -> None:
        """Remove every probe, and say what is left to know."""
        self._attachments.switch_off()
        self._naming.stop()
        self._discovery.stop()
        for link in self._tracepoints:
            os.close(link)
        self._hooks.close()
        stopped = self._attachments.remove([*self._pointers.take_all(), *self._libraries.close()])
        self._watch.close()
        self._misses.tend(last=True)
        self._libraries.gaps.tell_unprobed(last=True)
        if news := self._passed_over.take_news(last=True):
            self._tell(news)
        self._attachments.poll()
        self._tell(stopped)

    def _follow_pointers(self, request: FollowPointers) -> None:
        """Each process's, in its tenant's turn."""
        reported = (pointer for pointer in request.pointers if pointer.process in self._reported)
        by_pid = sorted(reported, key=_pid_of)
        for pid, mine in groupby(by_pid, _pid_of):
            tenant = tenant_of(pid)
            while part := list(islice(mine, _POINTERS_AT_ONCE)):
                work = partial(self._pointers.consider, tenant, pid, part)
                self._discovery.do(work, tenant, "pointers")

    def _follow_unread(self) -> None:
        """Names in pages that were not there, by process."""
        if not (records := self._unread.records()):
            return
        for process, mine in by_process(np.frombuffer(b"".join(records), UNREAD)):
            self._inspector.ask_texts(tenant_of(process.pid), process, mine)


def main() -> int:
    """Run as a program of its own: the socket is inherited, the settings come through it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    share_memory()
    # Before there is anything that it must not hold.
    files = ElfFiles(Readers(answer))
    keeper = Keeper()
    link = helper_link(socket.socket(fileno=int(os.environ["COTENANT_HELPER_FD"])))
    try:
        received = link.receive()
        if received is not None:
            leave_with_recorder(link.fileno())
            Helper(link, _settings(received[0]), files, keeper).run()
    except Closed:
        return 0
    except CotenantError as error:
        link.send(Failed(str(error)[:LINE_MAX], error.exit_code))
        return error.exit_code
    except OSError as error:
        link.send(Failed(f"cannot record: {error}"[:LINE_MAX], 3))
        return 3
    # Threads may hang in a tenant's file system; the links must not wait for them.
    os._exit(0)


def _settings(first: object) -> HelperSettings:
    if isinstance(first, Begin):
        return first.settings
    why = first.text if isinstance(first, Trouble) else "the first request was not to begin"
    raise CotenantError(f"cannot record: {why}")


if __name__ == "__main__":
    sys.exit(main())
