"""The libraries that are probed, by real inode, from first sight to last use."""

import os
import resource
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from cotenant.agent.helper.discovery.fair_queue import OURS, PassedOver
from cotenant.agent.helper.gaps import Gaps
from cotenant.agent.helper.probed_library import ProbedLibrary
from cotenant.agent.helper.prober import Prober
from cotenant.agent.helper.resting import Resting, mappers
from cotenant.agent.helper.unprobed import UnprobedFunctions
from cotenant.agent.helper.unsure import OF_RUNTIME, Unsure
from cotenant.agent.protocol.reports import LibraryReport, Report
from cotenant.agent.protocol.requests import Rest
from cotenant.errors import ProbeError
from cotenant.probes.attach import Attachment, Placed
from cotenant.probes.changes import TooMany
from cotenant.probes.inodes import Inode, real_inode
from cotenant.probes.plan import Plan

# Files that are no library of ours, remembered so that each is read once.
_STRANGERS_MAX: Final = 65536
# Files that one tenant may have probed at once.
_EACH_MAX: Final = 256
_CHANGING_MAX: Final = 4096
_CLAIMED_MAX: Final = 4096
_REFUSED_MAX: Final = 16
# Between attempts to attach.
_PAUSES_S: Final = (0.002, 0.01, 0.05)


class Libraries:
    """Attaches to each file once, and lets go of those that nobody maps any more."""

    def __init__(
        self,
        prober: Prober,
        plan: Callable[[str, int], Plan | None],
        inode_program: int,
        tell: Callable[[Report], None],
        passed_over: PassedOver,
    ) -> None:
        self._prober = prober
        self.unsure = Unsure(prober.code_program, tell)
        self._plan = plan
        self._inode_program = inode_program
        self._tell = tell
        self.gaps = Gaps(tell)
        self._passed_over = passed_over
        self._descriptors_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._probed: dict[Inode, ProbedLibrary] = {}
        self._attached_last_ns = 0
        self._refused: Counter[str] = Counter()
        # With size and time of change: a file may be looked at while it is being written.
        self._strangers: OrderedDict[Inode, tuple[int, ...]] = OrderedDict()
        # Files that a thread is at, and who else had them mapped meanwhile, and when.
        self._claims: dict[Inode, list[tuple[str, int]]] = {}
        self._claiming = threading.Lock()
        self.placing: set[int] = set()  # Threads that wait for the kernel, for nobody's file.
        self._changing: set[tuple[int, int]] = set()
        by_whom = partial(mappers, prober.code_program)
        self.resting = Resting(by_whom)
        self.unprobed = UnprobedFunctions(by_whom, tell)
        self._spare: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self._probed)

    def _turn_away(self, inode: Inode, fd: int) -> None:
        self._strangers[inode] = _state(fd)
        os.close(fd)
        while len(self._strangers) > _STRANGERS_MAX:
            self._strangers.popitem(last=False)

    def knows(self, inode: Inode) -> bool:
        """Whether a file was looked at before, be it ours or not."""
        return inode in self._probed or inode in self._strangers

    def probed(self, inode: Inode) -> ProbedLibrary | None:
        """The library on this inode, if it is probed."""
        return self._probed.get(inode)

    def consider(
        self, fd: int, path: str, tenant: str, *, mapped_ns: int | None, host: bool = False
    ) -> bool:
        """Probe an open file if it is a library of ours; closes ``fd`` if it is not kept.

        ``mapped_ns`` is when somebody mapped it: from then until now, calls went unseen.
        """
        inode = real_inode(self._inode_program, fd)
        if inode is None:
            os.close(fd)
            return False
        mine, known = self._claim(inode, fd, tenant, mapped_ns)
        if not mine:
            os.close(fd)
            if known is not None and mapped_ns is not None:
                self._mapped(known, tenant, mapped_ns)
            return known is not None
        try:
            return self._look_at(inode, fd, path, tenant, mapped_ns, host=host)
        finally:
            self._give_up_claim(inode)

    def _claim(
        self, inode: Inode, fd: int, tenant: str, mapped_ns: int | None
    ) -> tuple[bool, ProbedLibrary | None]:
        """Whether this thread is to look at a file, and the library if it is probed already."""
        state = _state(fd)  # A file system may take its time.
        with self._claiming:
            known = self._probed.get(inode)
            if known is not None or self._strangers.get(inode) == state:
                return False, known
            if inode not in self._claims:
                self._claims[inode] = []
                return True, None
            if mapped_ns is not None and len(self._claims[inode]) < _CLAIMED_MAX:
                self._claims[inode].append((tenant, mapped_ns))
            return False, None

    def _give_up_claim(self, inode: Inode) -> None:
        """The file is probed by now, or will not be: so it is for who else had it mapped."""
        with self._claiming:
            others = self._claims.pop(inode)
            library = self._probed.get(inode)
        for tenant, mapped_ns in others:
            if library is not None:
                self._mapped(library, tenant, mapped_ns)

    def _look_at(
        self,
        inode: Inode,
        fd: int,
        path: str,
        tenant: str,
        mapped_ns: int | None,
        *,
        host: bool,
    ) -> bool:
        try:
            found = self._plan(tenant, fd)
        except Exception:
            self._turn_away(inode, fd)
            raise
        if found is None or not found.placed:
            self._turn_away(inode, fd)
            if found is not None:
                self._tell_of(ProbedLibrary(fd, path, found, tenant=tenant), inode)
            return False
        if not self._room(tenant):
            os.close(fd)
            return False
        self._attach(ProbedLibrary(fd, path, found, host=host, tenant=tenant), inode, mapped_ns)
        return True

    def _room(self, tenant: str) -> bool:
        """Whether a tenant may have one more, so that enough is left for all others."""
        probed = list(self._probed.values())
        mine = [library for library in probed if library.tenant == tenant]
        share = self._descriptors_max // (2 if tenant == OURS else 4)
        full = sum(library.descriptors for library in probed) > self._descriptors_max * 3 // 4
        many = len(mine) >= _EACH_MAX and tenant != OURS
        if full or many or sum(library.descriptors for library in mine) > share:
            self._passed_over.add("libraries", tenant)
            return False
        return True

    def seen_again(self, number: int, tenant: Callable[[], str], mapped_ns: int) -> None:
        """Somebody mapped what was looked at before; perhaps before its probes came."""
        if mapped_ns < self._attached_last_ns:
            for library in self._numbered(number):
                self._mapped(library, tenant(), mapped_ns)

    def _numbered(self, number: int) -> list[ProbedLibrary]:
        """Libraries whose inode has this number, on whatever device."""
        return [one for inode, one in list(self._probed.items()) if inode.number == number]

    def missed(self, number: int, path: str, tenant: str, mapped_ns: int) -> None:
        """Somebody mapped a file that looks like ours, and was gone before it could be opened."""
        for library in self._numbered(number):
            if os.path.basename(library.path) == os.path.basename(path):
                self._mapped(library, tenant, mapped_ns)
                return
        why = {"*": "its process ended before it could be opened"}
        self._tell_library(tenant, LibraryReport(path, attached=0, refused=why))
        self.gaps.found(tenant, path, mapped_ns, time.monotonic_ns(), probed=False)

    def _mapped(self, library: ProbedLibrary, tenant: str, mapped_ns: int) -> None:
        """It was mapped then; if its probes came later, calls may have gone unseen."""
        gap = library.attached_ns - mapped_ns
        if gap > (library.gap_ns or 0):
            library.gap_ns = gap
            self._tell(library.describe())
        self._late(library, tenant, mapped_ns)

    def _late(self, library: ProbedLibrary, tenant: str, mapped_ns: int) -> None:
        kinds = library.plan.kinds
        self.gaps.found(tenant, library.path, mapped_ns, library.attached_ns, kinds=kinds)

    def _attach(self, library: ProbedLibrary, inode: Inode, mapped_ns: int | None) -> None:
        try:
            self._place(library, inode)
        except ProbeError as error:
            # One that too many have mapped may be looked at again.
            if isinstance(error, TooMany):
                os.close(library.fd)
            else:
                self._turn_away(inode, library.fd)
            blind = "cuda" in library.plan.kinds
            refused = {"*": str(error)}
            self._tell(
                replace(library.describe(), attached=0, stepped=0, blind=blind, refused=refused)
            )
            self.unprobed.consider(inode, refused, library.plan.kinds)
            return
        library.attached_ns = self._attached_last_ns = time.monotonic_ns()
        library.gap_ns = None if mapped_ns is None else library.attached_ns - mapped_ns
        self._probed[inode] = library
        self._tell_of(library, inode)
        if mapped_ns is not None:
            self._late(library, library.tenant, mapped_ns)

    def _tell_library(self, tenant: str, about: LibraryReport) -> None:
        """Of what is not probed a few of each tenant: they stand beside those of others."""
        self._refused[tenant] += not about.attached
        if about.attached or self._refused[tenant] <= _REFUSED_MAX or tenant == OURS:
            self._tell(about)

    def _tell_of(self, library: ProbedLibrary, inode: Inode) -> None:
        about = library.describe()
        self._tell_library(library.tenant, about)
        self.unsure.consider(inode, about.refused)
        self.unprobed.consider(inode, about.refused, about.kinds)

    def _place(self, library: ProbedLibrary, inode: Inode) -> None:
        """Every probe of a file."""
        me = threading.get_ident()
        self.placing.add(me)
        try:
            self._try_to_place(library, inode)
        finally:
            self.placing.discard(me)

    def _try_to_place(self, library: ProbedLibrary, inode: Inode) -> None:
        """Several times: one process that ends meanwhile makes the kernel refuse all."""
        for pause_s in (*_PAUSES_S, None):
            try:
                self._prober.place(library.probes, library.fd, inode, self._awake(library, inode))
            except ProbeError as error:
                if pause_s is None or isinstance(error, TooMany):
                    raise
                time.sleep(pause_s)
            else:
                return

    def changed(self, pid: int, number: int, *, writable: bool) -> bool:
        """Whether a process has changed code of a file with this inode number, and is done."""
        if writable:
            probed = any(inode.number == number for inode in list(self._probed))
            if probed and len(self._changing) < _CHANGING_MAX:
                self._changing.add((pid, number))
            return False
        if (pid, number) not in self._changing:
            return False
        self._changing.discard((pid, number))
        return True

    def look_again(self, number: int) -> None:
        """Leave alone what was changed meanwhile in a file with this inode number."""
        for inode, library in list(self._probed.items()):
            if inode.number == number and self._prober.harmful(
                library.probes, library.fd, inode, self._awake(library, inode)
            ):
                self._place_again(library, inode)

    def ucx_came(self) -> None:
        """Somebody loads UCX. There is little time: nothing waits for this, nor this for it."""
        if self._prober.ucx_came():
            threading.Thread(target=self._make_room, name="room", daemon=True).start()

    def _make_room(self) -> None:
        for inode, library in list(self._probed.items()):
            if self._prober.make_room(library.probes, library.plan.placed):
                self._tell_of(library, inode)

    def _awake(self, library: ProbedLibrary, inode: Inode) -> list[Placed]:
        spare = self._spare - OF_RUNTIME if self.unsure else self._spare
        without = self.resting.of(inode) | spare
        return [p for p in library.plan.placed if p.function.id not in without]

    def rest(self, request: Rest) -> None:
        """Leave functions without probes where only the tenant that is named has them mapped."""
        self.resting.ask(request.tenants, request.number)
        done = self._settle()
        self._tell(self.resting.report(done=done))

    def rest_again(self) -> None:
        """Somebody else may map by now what rests."""
        before = self.resting.report(done=True).blind
        done = self._settle()
        if self.resting.report(done=done).blind != before:
            self._tell(self.resting.report(done=done))

    def _settle(self) -> bool:
        """Place what does not rest any more, remove what does; false if that failed somewhere."""
        done = True
        for inode, library in list(self._probed.items()) if self.resting else ():
            foreign = self.resting.foreign(inode)
            if self.resting.settle(inode, library.plan):
                done &= self._place_again(library, inode)
                library.attached_ns = self._attached_last_ns = time.monotonic_ns()
                for tenant, since_ns in foreign:
                    self._late(library, tenant, since_ns)
        return done

    def spare(self, functions: frozenset[int]) -> None:
        """Leave these without probes, because another layer tells the same."""
        changed, self._spare = self._spare ^ functions, functions
        self._attach_again(changed)

    def _attach_again(self, changed: frozenset[int]) -> bool:
        done = True
        for inode, library in list(self._probed.items()):
            if not any(p.function.id in changed for p in library.plan.placed):
                continue
            done &= self._place_again(library, inode)
        return done

    def _place_again(self, library: ProbedLibrary, inode: Inode) -> bool:
        left = library.probes.left
        try:
            self._place(library, inode)
        except ProbeError:
            return False  # The old ones stay; the next change tries again.
        if library.probes.left != left:
            self._tell_of(library, inode)
        return True

    def sweep(self, mapped: set[Inode], *, linger_ns: int) -> set[Inode]:
        """Let go of libraries that nobody has mapped for a while; those that went."""
        now = time.monotonic_ns()
        gone = set()
        for inode, library in list(self._probed.items()):
            if inode in mapped or library.host:
                library.unused_since_ns = None
            elif library.unused_since_ns is None:
                library.unused_since_ns = now
            elif now - library.unused_since_ns >= linger_ns:
                gone.add(inode)
        for inode in gone:
            self.unsure.forget(inode)
            self.resting.forget(inode)
        if gone:
            self._release([self._probed.pop(inode) for inode in gone])
        return gone

    def _release(self, libraries: list[ProbedLibrary]) -> None:
        """Remove probes in the background: the kernel takes its time, and others are waiting."""

        def close() -> None:
            everything = Attachment()
            for library in libraries:
                library.probes.give(everything)
            everything.close()
            for library in libraries:
                os.close(library.fd)

        threading.Thread(target=close, name="release", daemon=True).start()

    def close(self) -> Attachment:
        """No probe fires when this returns; what takes long to remove goes with the process.

        The kernel removes perf events one after the other under a lock of its own, however many
        threads ask for it.
        """
        everything = Attachment()
        for library in list(self._probed.values()):
            library.probes.give(everything)
        if everything.events:
            everything.silence()
            return everything
        everything.close()
        for library in self._probed.values():
            os.close(library.fd)
        self._probed.clear()
        return everything


def _state(fd: int) -> tuple[int, ...]:
    about = os.fstat(fd)
    # Nobody can set the time of the last change as he likes.
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns
