"""Finding libraries, before their first use where that can be done.

    host         the usual directories, at start
    running      what processes have mapped already, at start
    mounts       the layers of what the host mounts, before a cgroup is made for it
    containers   the new root of a process that enters a new cgroup, before it runs its program
    later        what anybody maps as code afterwards

All of it reads tenants' files, which may be slow or never answer; so it is work of threads of their
own, in which no tenant's waits behind another's.
"""

import functools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import numpy as np

from cotenant.agent.helper.discovery.directories import looks_like_library
from cotenant.agent.helper.discovery.locked_processes import LockedProcesses
from cotenant.agent.helper.discovery.mapped_files import MappedFile, mapped_files
from cotenant.agent.helper.discovery.mapped_range import MappedRange
from cotenant.agent.helper.discovery.mmap_events import MmapEvent, MmapEvents
from cotenant.agent.helper.discovery.newcomers import Look, Newcomers
from cotenant.agent.helper.discovery.root_search import RecentlySeen, RootSearch, Steps, surviving
from cotenant.agent.helper.discovery.second_looks import SecondLooks
from cotenant.agent.helper.discovery.settled import Records, SettledFiles
from cotenant.agent.helper.discovery.undecided import Undecided
from cotenant.agent.helper.discovery.unprobed_mappings import UnprobedMappings
from cotenant.agent.helper.fair_queue import (
    ENDED,
    MOUNTS,
    OURS,
    PassedOver,
    tenant_of,
)
from cotenant.agent.helper.libraries.libraries import Libraries
from cotenant.agent.helper.runnable import runnable
from cotenant.agent.helper.timetable import Timetable
from cotenant.agent.helper.workers import Workers
from cotenant.agent.process import Process
from cotenant.agent.protocol.reports import Report, Trouble
from cotenant.agent.protocol.requests import Rest
from cotenant.probes.code_mappings import CodeMappings
from cotenant.probes.inodes import Inode, inodes_of
from cotenant.probes.memory_locks import MemoryLock

_SWEEP_EVERY_S: Final = 5.0
LINGER_NS: Final = 10_000_000_000
_TURN_S: Final = 0.1
_LET_GO_S: Final = 0.1
_SCAN_S: Final = 30.0  # Since probes were last placed; some kernels take seconds for a file.
_SCAN_MAX_S: Final = 240.0
_SCAN_STEP_S: Final = 0.003
_SCAN_EVERY_S: Final = 1.0
_SCANNED_MAX: Final = 16384  # Of one tenant.
_PATIENCE_S: Final = 5.0
_STOP_S: Final = 2.0
_REST_EVERY_S: Final = 0.1
_PROCESS: Final = ["process", "process_start_ns"]


Work = Callable[[], Steps | None]
_Item = Look | MmapEvent | Work | Steps


class DiscoveryScheduler:
    """Feeds ``Libraries`` from what happens on the host."""

    def __init__(
        self,
        libraries: Libraries,
        code: CodeMappings,
        tell: Callable[[Report], None],
        passed_over: PassedOver,
        *,
        linger_ns: int = LINGER_NS,
        records: Records | None = None,
    ) -> None:
        self._libraries = libraries
        self._code = code
        self._tell = tell
        self._passed_over = passed_over
        self._linger_ns = linger_ns
        self._workers: Workers[_Item] = Workers("discovery", self._handle)
        self._timetable = Timetable()
        self._undecided = Undecided(self._timetable, self._put_again)
        self._second_looks = SecondLooks(libraries, self._timetable, self._workers.put, passed_over)
        self._unprobed = UnprobedMappings(libraries, code, self._put_mapping)
        self._sweepers: list[Callable[[set[Process]], None]] = []
        self._seen = RecentlySeen()
        self._roots = RootSearch(libraries, tell, passed_over)
        self.newcomers = Newcomers(self._roots, self._timetable, self._put, self._put_files)
        self._settled = SettledFiles(records, libraries)
        self._locked = LockedProcesses(passed_over)
        self._scanning: set[str] = set()
        self._scanned = -_SCAN_EVERY_S
        self._read_ns = time.monotonic_ns()
        self._lost_since_ns: int | None = None
        self._hanging: set[str] = set()
        self._unserved: set[str] = set()
        self._without_probes: set[Inode] = set()
        self._withdrawing = threading.Lock()
        self._disturbed = False
        self._rested = -_REST_EVERY_S

    def start(self) -> None:
        """Follow what comes, in the background."""
        self._libraries.by_owner.put = self._workers.put
        self._workers.start()
        self._timetable.start()
        self._timetable.add(_SWEEP_EVERY_S, self._sweep_later)

    def scan(self) -> None:
        """Find what is mapped already; called once, before recording is announced."""
        now = time.monotonic_ns()
        running = self._running(now)
        for _ in self._roots.host():
            pass
        for tenant, files in running.items():
            self._scanning.add(tenant)
            self._put(tenant, self._scan(tenant, files, now), "mappings")
        last = time.monotonic() + _SCAN_MAX_S
        until = time.monotonic() + _SCAN_S
        while self._scanning - self._hanging and time.monotonic() < until:
            if not self._workers.serving:
                return
            time.sleep(_SCAN_STEP_S)
            self.tend()
            if self._libraries.placing:
                until = min(last, time.monotonic() + _SCAN_S)

    def _running(self, since_ns: int) -> dict[str, list[MappedFile]]:
        """What is mapped as code and was not looked at, by tenant."""
        found: dict[str, list[MappedFile]] = {}
        for tenant, file in self._mapped_files(self._is_new, since_ns):
            mine = found.setdefault(tenant, [])
            if len(mine) < _SCANNED_MAX:
                mine.append(file)
            else:
                self._passed_over.add("mappings", tenant)
        return found

    def _mapped_files(
        self, wanted: Callable[[Inode, str], bool], since_ns: int
    ) -> Iterator[tuple[str, MappedFile]]:
        """What is mapped as code; the mappings of locked processes are read after a sweep."""
        silent: dict[int, MemoryLock] = {}
        yield from mapped_files(self._code, wanted, silent)
        self._locked.add(silent, since_ns)

    def _is_new(self, inode: Inode, tenant: str) -> bool:
        return not self._libraries.knows(inode, tenant)

    def _scan(self, tenant: str, files: list[MappedFile], now_ns: int) -> Steps:
        for inode, place in files:
            with surviving(self._tell):
                if self._libraries.knows(inode, tenant):  # Another maps it, too, and was first.
                    self._libraries.seen_again(inode, tenant, now_ns)
                else:
                    self._consider_mapping(tenant, place, "", now_ns)
            yield
        self._scanning.discard(tenant)

    def mappings_lost(self, since_ns: int) -> None:
        """Files were mapped since then, and nobody knows which: look at all, once in a while."""
        if self._lost_since_ns is None:
            self._lost_since_ns = since_ns
            wait = self._scanned + _SCAN_EVERY_S - time.monotonic()
            self._timetable.add(wait, lambda: self._put(OURS, self._scan_again, "work"))
        self._lost_since_ns = min(self._lost_since_ns, since_ns)

    def _scan_again(self) -> None:
        since_ns, self._lost_since_ns = self._lost_since_ns or 0, None
        self._scanned = time.monotonic()
        for tenant, files in self._running(since_ns).items():
            self._put(tenant, self._scan(tenant, files, since_ns), "mappings")

    def stop(self) -> None:
        """Take no more work; waits for what is under way, up to a bound."""
        self._timetable.stop()
        self._workers.stop(_STOP_S)

    def follow(self, records: MmapEvents) -> None:
        """Files that were mapped as code; what the kernel had no room to tell is looked for."""
        since_ns, self._read_ns = self._read_ns, time.monotonic_ns()
        self.mapped(records.read())
        if lost := records.take_lost():
            self._passed_over.add("mappings", "lost", lost)
            self.mappings_lost(since_ns)

    def mapped(self, mapped: Iterable[MmapEvent]) -> None:
        """Somebody mapped files as code."""
        whose = functools.cache(tenant_of)
        me = os.getpid()  # We map files ourselves to see what is in them.
        for file in (file for file in mapped if file.pid != me):
            tenant, shown = ENDED if file.ended else whose(file.pid), file.inode
            if self._libraries.unsure.knows(shown.number):
                told = functools.partial(self._libraries.unsure.mapped, file.pid)
                self._put_mapping(tenant, told)
            for wait_s in self._libraries.changed(file.pid, shown, writable=file.writable):
                self._second_looks.add(tenant, shown, wait_s)
            self._unprobed.mapped(tenant, file)
            resting = self._libraries.resting
            if resting.knows(shown) and resting.disturbs(shown, tenant):
                self._rest_again()
            urgent = looks_like_library(file.path)
            gone = tenant == ENDED and not urgent  # There is nothing to open, nor to be missed.
            if gone or (tenant, file.key) in self._seen:
                self._libraries.seen_again(shown, tenant, file.when_ns, file.path)
                self._settled.mapped(tenant, file)
            elif file.path.startswith("/"):
                self._put(tenant, file, "mappings", urgent=urgent)

    def _rest_again(self) -> None:
        """However often somebody maps what rests, all mappings are looked at once in a while."""
        if not self._disturbed:
            self._disturbed = True
            wait_s = self._rested + _REST_EVERY_S - time.monotonic()
            self._timetable.add(max(0.0, wait_s), lambda: self.do(self._begin_rest_again))

    def _begin_rest_again(self) -> None:
        self._disturbed, self._rested = False, time.monotonic()
        self._libraries.rest_again()

    def mounted(self, layers: list[str]) -> None:
        """The host has mounted something made of these directories: perhaps a container's root."""
        self._put(MOUNTS, lambda: self._roots.host_layers(layers), "mounts")

    def rest(self, request: Rest) -> None:
        """Functions cost too much: no probes on them until told otherwise."""
        self.do(functools.partial(self._libraries.rest, request))

    def do(self, work: Work, tenant: str = OURS, what: str = "work") -> None:
        """Queue other work that may take long."""
        self._put(tenant, work, what)

    def when_swept(self, sweeper: Callable[[set[Process]], None]) -> None:
        """Have this called every few seconds with the running processes."""
        self._sweepers.append(sweeper)

    def _put(self, tenant: str, item: _Item, what: str, *, urgent: bool = True) -> None:
        if not self._workers.put(tenant, item, urgent=urgent):
            self._passed_over.add(what, tenant)

    def _put_mapping(self, tenant: str, look: Callable[[], None]) -> None:
        self._put(tenant, look, "mappings")

    def _put_files(self, tenant: str, steps: Steps) -> None:
        self._put(tenant, steps, "files", urgent=False)

    def _put_again(self, tenant: str, look: Callable[[], None]) -> None:
        self._put(tenant, look, "mappings", urgent=False)

    def tend(self) -> None:
        """Say whose files do not answer. Nobody but their owner waits, or that is told."""
        held_up = self._workers.held_up(_PATIENCE_S).items()
        # What takes long while probes are placed is the kernel's doing.
        waiting = {who for thread, who in held_up if thread not in self._libraries.placing}
        if waiting - self._hanging and runnable():
            waiting &= self._hanging  # The host is busy: who waits may wait for a CPU.
        for tenant in waiting - self._hanging - {OURS}:
            self._tell(Trouble.by("discovery", f"a file of {tenant} does not answer"))
        self._hanging = waiting
        unserved = self._workers.tend() - {OURS}
        for tenant in unserved - self._unserved:
            self._passed_over.add("waiting", tenant)
        self._unserved = unserved

    def _handle(self, tenant: str, item: _Item) -> None:
        with surviving(self._tell):
            if isinstance(item, MmapEvent):
                self._follow(tenant, item)
            elif isinstance(item, Look):
                self.newcomers.look(tenant, item, self._advance)
            else:
                self._advance(tenant, item() if callable(item) else item)

    def _advance(self, tenant: str, steps: Steps | None) -> None:
        """Run steps until the turn is over; the rest goes back into the queue."""
        until = time.monotonic() + _TURN_S
        for _ in steps or ():
            if steps is not None and time.monotonic() > until:
                self._put(tenant, steps, "files")
                return

    def _follow(self, tenant: str, item: MmapEvent) -> None:
        """Look at a file that was mapped, once for each tenant.

        At that place may be another by now, and nobody but who maps it there is to be misled by
        that. A process that is gone already leaves the file for the next one; and what is called
        like a library of ours but is none may not be whole yet.
        """
        if (tenant, item.key) in self._seen:
            self._libraries.seen_again(item.inode, tenant, item.when_ns, item.path)
            return
        place = MappedRange(item.pid, item.start, item.end)
        try:
            ours = self._consider_mapping(tenant, place, item.path, item.when_ns)
        except OSError:
            if looks_like_library(item.path):
                self._libraries.missed(item.inode, item.path, tenant, item.when_ns)
            return
        if ours or (ours is not None and not looks_like_library(item.path)):
            self._seen.add((tenant, item.key))
        if ours is False:
            self._settled.found(tenant, item)

    def _consider_mapping(
        self, tenant: str, place: MappedRange, path: str, when_ns: int, attempt: int = 0
    ) -> bool | None:
        fd = place.open(path)
        if not path:
            path = os.readlink(f"/proc/self/fd/{fd}")
        again = functools.partial(self._consider_again, tenant, place, when_ns, attempt + 1)
        later = functools.partial(self._undecided.add, tenant, attempt, again)
        return self._libraries.consider(fd, path, tenant, mapped_ns=when_ns, later=later)

    def _sweep_later(self) -> None:
        self._put(OURS, self._sweep, "work")
        self._timetable.add(_SWEEP_EVERY_S, self._sweep_later)

    def _sweep(self) -> None:
        mapped: set[Inode] = set()
        living: set[Process] = set()
        silent: dict[int, MemoryLock] = {}
        for mappings in self._code.everywhere(silent):
            found = (inode for inode, _ in inodes_of(mappings))
            mapped.update(inode for inode in found if self._libraries.probed(inode))
            _, first = np.unique(mappings["process"], return_index=True)
            living.update(map(Process._make, mappings[first][_PROCESS].tolist()))
        # What is mapped by nobody, and who has ended, is known if everybody was asked.
        if not silent and (gone := self._libraries.sweep(mapped, linger_ns=self._linger_ns)):
            self._look_anew(gone)
        if (since_ns := self._locked.released(silent)) is not None:
            self.mappings_lost(since_ns)
        self._libraries.rest_again()
        self._libraries.unprobed.sweep()
        for tenant, recover in self._libraries.recoveries():
            self._put(tenant, recover, "changes")
        for tenant, look in self._libraries.rewrite_checks(self._withdrawn):
            self._put(tenant, look, "changes")
        for sweeper in self._sweepers if not silent else ():
            sweeper(living)

    def follow_rewrites(self) -> None:
        """Somebody may have written to files that are probed: they are other files now."""
        self._libraries.withdraw_rewritten(self._withdrawn)

    def _withdrawn(self, inode: Inode) -> None:
        """A file has lost its probes. Whoever writes to many is dealt with once in a while."""
        with self._withdrawing:
            first = not self._without_probes
            self._without_probes.add(inode)
        if first:
            self._timetable.add(_LET_GO_S, lambda: self._put(OURS, self._let_go, "work"))

    def _let_go(self) -> None:
        with self._withdrawing:
            gone, self._without_probes = self._without_probes, set()
        gone = {inode for inode in gone if self._libraries.probed(inode)}
        if gone:
            self._libraries.let_go(gone)
            self._look_anew(gone)

    def _look_anew(self, gone: set[Inode]) -> None:
        """What was let go is worth a look when it comes again, or is there already."""
        self._seen.clear()
        self._settled.clear()
        self._roots.looked.clear()
        self._take_back(gone)

    def _take_back(self, gone: set[Inode]) -> None:
        """Probe again what somebody mapped while the sweep looked elsewhere.

        Nobody queued it: it was probed at that time.
        """
        now = time.monotonic_ns()
        for tenant, file in self._mapped_files(lambda inode, _: inode in gone, now):
            # Its file may never answer: that is not for us to wait for.
            look = functools.partial(self._consider_again, tenant, file.place, now)
            self._put(tenant, look, "mappings")

    def _consider_again(
        self, tenant: str, place: MappedRange, when_ns: int, attempt: int = 0
    ) -> None:
        self._consider_mapping(tenant, place, "", when_ns, attempt)
