"""The libraries that are probed, by real inode, from first sight to last use."""

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from cotenant.agent.helper.fair_queue import ENDED, OURS, PassedOver
from cotenant.agent.helper.libraries.by_owner import ByOwner, Work
from cotenant.agent.helper.libraries.claims import (
    REWRITTEN,
    Claim,
    Claims,
    OpenFile,
    check_unwritten,
    file_state,
    is_final,
)
from cotenant.agent.helper.libraries.file_quota import FileQuota
from cotenant.agent.helper.libraries.gaps import Gaps
from cotenant.agent.helper.libraries.probed_files import ProbedFiles
from cotenant.agent.helper.libraries.probed_library import ProbedLibrary
from cotenant.agent.helper.libraries.prober import Prober
from cotenant.agent.helper.libraries.refused_libraries import RefusedLibraries
from cotenant.agent.helper.libraries.resting import Resting, mappers
from cotenant.agent.helper.libraries.rewrites import Rewrites
from cotenant.agent.helper.libraries.unprobed import UnprobedFunctions
from cotenant.agent.helper.libraries.unreadable import UnreadableFiles
from cotenant.agent.helper.libraries.unsure import OF_RUNTIME, Unsure
from cotenant.agent.helper.libraries.withdrawals import Done, Withdrawals
from cotenant.agent.protocol.reports import LibraryReport, Report
from cotenant.agent.protocol.requests import Rest
from cotenant.errors import ProbeError
from cotenant.probes.attach import Attachment, Placed
from cotenant.probes.elf import BadElf
from cotenant.probes.inodes import Inode, real_inode
from cotenant.probes.plan import Plan
from cotenant.probes.threads import in_background

_LATER_S: Final = 1.0


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
        self.unsure = Unsure(prober.code, tell)
        self._plan = plan
        self._inode_program = inode_program
        self._tell = tell
        self._tell_library = RefusedLibraries(lambda about: self._tell(about))
        self.gaps = Gaps(tell)
        self.rewrites = Rewrites()
        self._withdrawals = Withdrawals(self._withdraw, tell)
        self.quota = FileQuota(passed_over)
        self._probed = ProbedFiles()
        self.by_owner = ByOwner()
        self._attached_last_ns = 0
        self._claims: Claims[ProbedLibrary] = Claims()
        self.placing: set[int] = set()  # Threads that wait for the kernel, for nobody's file.
        by_whom = partial(mappers, prober.code)
        self.resting = Resting(by_whom)
        self.unprobed = UnprobedFunctions(by_whom, tell)
        self._unreadable = UnreadableFiles(self._tell_library, self.unprobed, passed_over)
        self._spare: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self._probed)

    def knows(self, inode: Inode, tenant: str) -> bool:
        """Whether a file needs no look by this tenant, be it ours or not."""
        return inode in self._probed or bool(self._claims.turned_away(inode, tenant))

    def probed(self, inode: Inode) -> ProbedLibrary | None:
        """The library on this inode, if it is probed."""
        return self._probed.get(inode)

    def consider(
        self, fd: int, path: str, tenant: str, *, mapped_ns: int | None, host: bool = False,
        later: Work = lambda: None,
    ) -> bool | None:  # fmt: skip
        """Probe an open file if it is a library of ours; closes ``fd`` if it is not kept.

        ``mapped_ns`` is when somebody mapped it: from then until now, calls went unseen. None if
        it may be ours, and is not probed now; ``later`` is called if it is to be brought again.
        """
        inode = real_inode(self._inode_program, fd)
        if inode is None:
            os.close(fd)
            return False
        try:
            state = file_state(fd)  # A file system may take its time.
        except OSError:
            os.close(fd)
            raise
        claim, known = self._claims.claim(inode, state, self._probed, tenant, mapped_ns)
        if claim is None:
            os.close(fd)
            if known is not None and mapped_ns is not None:
                self._mapped(known, tenant, mapped_ns)
            if known is not None or self._claims.is_stranger(inode, tenant):
                return known is not None
            later()
            return None
        file = OpenFile(fd, path, tenant, state, mapped_ns, host, later)
        try:
            return self._look_at(inode, file, claim)
        finally:
            self._give_up_claim(inode, claim)

    def _give_up_claim(self, inode: Inode, claim: Claim) -> None:
        """The file is probed by now, or will not be: so it is for who else had it mapped."""
        for tenant, mapped_ns in self._claims.give_up(inode, claim):
            if library := self._probed.get(inode):
                self._mapped(library, tenant, mapped_ns)

    def _look_at(self, inode: Inode, file: OpenFile, claim: Claim) -> bool | None:
        try:
            found = self._plan(file.tenant, file.fd)
        except BadElf as error:
            os.close(file.fd)
            done = self._unreadable.found(inode, file, error)
            if done is not None:
                self._claims.turn_away(inode, file, error, own=not done)
            return False if is_final(error) else None
        except Exception:
            self._claims.turn_away(inode, file, own=True)
            os.close(file.fd)
            raise
        if found is None or not found.placed:
            try:
                if found is not None:
                    self._tell_of(ProbedLibrary(file, found), inode)
            finally:
                self._turn_away(inode, file)
            return False
        admitted = self.quota.admits(file.tenant, inode, list(self._probed.values()))
        if not admitted or not self._claims.begin_placing(inode, claim, self._probed):
            os.close(file.fd)
            if admitted:
                file.later()  # Who is at it may still fail.
            return None
        return self._attach(ProbedLibrary(file, found), inode)

    def _turn_away(self, inode: Inode, file: OpenFile, why: ProbeError | None = None) -> None:
        self._claims.turn_away(inode, file, why)
        os.close(file.fd)

    def seen_again(self, shown: Inode, tenant: str, mapped_ns: int, path: str = "") -> None:
        """Somebody mapped what was looked at before; perhaps before its probes came."""
        if mapped_ns < self._attached_last_ns:
            for library in self._probed.named(shown, path):
                self._mapped(library, tenant, mapped_ns)

    def missed(self, shown: Inode, path: str, tenant: str, mapped_ns: int) -> None:
        """Somebody mapped a file that looks like ours, and was gone before it could be opened."""
        for library in self._probed.named(shown, path):
            # What another tenant has brought may only look the same.
            if self.probed(shown) or tenant == ENDED or library.tenant in (OURS, tenant):
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

    def _attach(self, library: ProbedLibrary, inode: Inode) -> bool | None:
        library.watch = self.rewrites.watch(library.fd)
        try:
            check_unwritten(library.file)
            self._place(library, inode)
        except ProbeError as error:
            self.rewrites.forget(library.watch)
            self._turn_away(inode, library.file, error)
            self._tell_unprobed(library, inode, str(error))
            if is_final(error):
                return False
            library.file.later()
            return None
        except OSError:
            self.rewrites.forget(library.watch)
            os.close(library.fd)
            raise
        library.attached_ns = self._attached_last_ns = time.monotonic_ns()
        mapped_ns = library.file.mapped_ns
        library.gap_ns = None if mapped_ns is None else library.attached_ns - mapped_ns
        self._probed.add(inode, library)
        if self.rewrites.written(library.watch):
            self._prober.withdraw(library.probes)
        self._tell_of(library, inode)
        if mapped_ns is not None:
            self._late(library, library.tenant, mapped_ns)
        return True

    def _tell_unprobed(self, library: ProbedLibrary, inode: Inode, why: str) -> None:
        about = library.describe_unprobed(why)
        self._tell_library(library.tenant, about)
        self.unprobed.consider(inode, about.refused, about.kinds, library.tenant)

    def withdraw_rewritten(self, done: Done) -> None:
        """Remove probes of files that are written to; what ``done`` is told of is to be let go."""
        watched = {one.watch: (inode, one) for inode, one in list(self._probed.items())}
        for watch in self.rewrites.take(watched):
            self._withdrawals.add(*watched[watch], done)

    def rewrite_checks(self, done: Done) -> list[tuple[str, Work]]:
        """Work that finds files which were written to without a word, and whose it is."""
        probed = list(self._probed.items())
        return [(one.tenant, partial(self._check, inode, one, done)) for inode, one in probed]

    def _check(self, inode: Inode, library: ProbedLibrary, done: Done) -> None:
        if library.is_rewritten():
            self._withdraw(inode, library, done)

    def _withdraw(self, inode: Inode, library: ProbedLibrary, done: Done) -> None:
        self._prober.withdraw(library.probes)
        self._tell_unprobed(library, inode, REWRITTEN)
        done(inode)

    def let_go(self, gone: set[Inode]) -> None:
        """Hold these files no more; who maps one has it looked at as if it were new."""
        for inode in gone:
            self.unsure.forget(inode)
            self.unprobed.unreached(inode, (), (), 0)
            self.resting.forget(inode)
            self.rewrites.forget(self._probed[inode].watch)
        if gone:
            self._release([self._probed.let_go(inode) for inode in gone])

    def _tell_of(self, library: ProbedLibrary, inode: Inode) -> None:
        if library.probes.void:
            return  # That it has none is told already.
        about = library.describe()
        self._tell_library(library.tenant, about)
        self.unsure.consider(inode, library.fd, about.refused, library.tenant)
        left = library.probes.left
        self.unprobed.consider(inode, about.refused, about.kinds, library.tenant, left)
        self.unprobed.unreached(inode, library.probes.unreached, about.kinds, library.attached_ns)

    def _place(self, library: ProbedLibrary, inode: Inode) -> None:
        """Every probe of a file."""
        me = threading.get_ident()
        self.placing.add(me)
        try:
            with library.probes.busy:  # Who comes last knows what is awake.
                self._prober.place(library.probes, library.fd, inode, self._awake(library, inode))
        finally:
            self.placing.discard(me)

    def changed(self, pid: int, shown: Inode, *, writable: bool) -> tuple[float, ...]:
        """When to look whether a process has changed code of a file that a record shows.

        In so many seconds from now; never if it maps the file for the first time. Who makes code
        writable may leave it so, or take his time.
        """
        soon = (_LATER_S,) if writable else (0, _LATER_S)
        return soon if self._probed.touched(pid, shown, writable=writable) else ()

    def second_looks(self, shown: Inode) -> list[tuple[str, Work]]:
        """Work that leaves alone what was changed in such a file, and whose it is."""
        probed = self._probed.shown(shown)
        return [(one.tenant, partial(self._look_again, one, inode)) for inode, one in probed]

    def _look_again(self, library: ProbedLibrary, inode: Inode) -> None:
        awake = self._awake(library, inode)
        if self._prober.harmful(library.probes, library.fd, inode, awake):
            self._place_again(library, inode)

    def recoveries(self) -> list[tuple[str, Work]]:
        """Work that probes again what nobody has changed any more, and whose it is."""
        changed = [item for item in list(self._probed.items()) if item[1].probes.has_changed]
        return [(one.tenant, partial(self._recover, one, inode)) for inode, one in changed]

    def _recover(self, one: ProbedLibrary, inode: Inode) -> None:
        kept = self._probed.get(inode) is one
        if kept and self._prober.recover(one.probes, one.fd, inode, one.plan.placed):
            self._place_again(one, inode)
            self._tell_of(one, inode)

    def _awake(self, library: ProbedLibrary, inode: Inode) -> list[Placed]:
        spare = self._spare - OF_RUNTIME if self.unsure else self._spare
        without = self.resting.of(inode) | spare
        return [p for p in library.plan.placed if p.function.id not in without]

    def rest(self, request: Rest) -> None:
        """Leave functions without probes where only the tenant that is named has them mapped."""
        self.resting.ask(request.tenants, request.number)
        self._tell(self.resting.report(done=self._settle()))

    def rest_again(self) -> None:
        """Somebody else may map by now what rests."""
        if news := self.resting.news(done=self._settle()):
            self._tell(news)

    def _settle(self) -> bool:
        """Place what does not rest any more, remove what does; false if that failed somewhere."""
        # Who brought a file may have no time for others; what is the host's own is ours to do.
        return self.by_owner.all_done(
            (tenant if library.tenant else OURS, inode, partial(self._settle_one, library, inode))
            for inode, library in list(self._probed.items())
            for tenant in self.resting.settle(inode, library.plan)
        )

    def _settle_one(self, library: ProbedLibrary, inode: Inode) -> bool:
        without = self.resting.of(inode)
        if not self.resting.is_settled(inode) and self._place_again(library, inode):
            library.attached_ns = self._attached_last_ns = time.monotonic_ns()
            for tenant, since_ns in self.resting.settled(inode, without):
                self._late(library, tenant, since_ns)
        return self.resting.is_settled(inode)

    def spare(self, functions: frozenset[int]) -> None:
        """Leave these without probes, because another layer tells the same."""
        changed, self._spare = self._spare ^ functions, functions
        self.by_owner.all_done(
            (library.tenant, (inode, functions), partial(self._place_again, library, inode))
            for inode, library in list(self._probed.items())
            if any(p.function.id in changed for p in library.plan.placed)
        )

    def _place_again(self, library: ProbedLibrary, inode: Inode) -> bool:
        before = library.probes.left, library.probes.unreached
        try:
            self._place(library, inode)
        except ProbeError:
            return False  # The old ones stay; the next change tries again.
        if (library.probes.left, library.probes.unreached) != before:
            self._tell_of(library, inode)
        return True

    def sweep(self, mapped: set[Inode], *, linger_ns: int) -> set[Inode]:
        """Let go of libraries that nobody has mapped for a while; those that went."""
        gone = self._probed.unused(mapped, linger_ns)
        self.let_go(gone)
        return gone

    def _release(self, libraries: list[ProbedLibrary]) -> None:
        """Remove probes in the background: the kernel takes its time, and others are waiting."""

        def close() -> None:
            for library in libraries:
                self._prober.withdraw(library.probes)
                library.close()

        in_background(close, "release")

    def close(self) -> list[Attachment]:
        """Probe nothing any more; all probes, for the caller to remove."""
        self.rewrites.close()
        self._withdrawals.stop()
        left: list[Attachment] = []
        for library in list(self._probed.values()):
            left.append(self._prober.take(library.probes))
            library.close(patience_s=0)
        self._probed.clear()
        return left
