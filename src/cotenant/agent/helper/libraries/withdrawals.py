"""Files that have to lose their probes at once: no tenant's wait behind another's."""

import threading
from collections.abc import Callable
from functools import partial

from cotenant.agent.channel import Closed
from cotenant.agent.helper.libraries.probed_library import ProbedLibrary
from cotenant.agent.helper.workers import Workers
from cotenant.agent.protocol.reports import Report, Trouble
from cotenant.probes.inodes import Inode
from cotenant.probes.threads import Work, in_parallel

Done = Callable[[Inode], None]


class Withdrawals:
    """Has probes removed, of however many files: each tenant's has a thread, if there are enough.

    What is done waits for the kernel alone, and for no file.
    """

    def __init__(
        self,
        withdraw: Callable[[Inode, ProbedLibrary, Done], None],
        tell: Callable[[Report], None],
    ) -> None:
        self._withdraw = withdraw
        self._tell = tell
        # By tenant: all of them are one item in the queue.
        self._due: dict[str, list[Work]] = {}
        self._lock = threading.Lock()
        self._workers: Workers[None] = Workers("withdraw", self._handle)
        self._workers.start()  # Later there may be no room for even one thread.

    def add(self, inode: Inode, library: ProbedLibrary, done: Done) -> None:
        """Withdraw the probes of this file, and of its tenant's others beside it."""
        with self._lock:
            if library.tenant not in self._due:
                self._workers.put(library.tenant, None)
            work = partial(self._withdraw, inode, library, done)
            self._due.setdefault(library.tenant, []).append(work)

    def stop(self) -> None:
        """Begin no more; what waits for the kernel goes with the process."""
        self._workers.stop(0)

    def _handle(self, tenant: str, _: None) -> None:
        with self._lock:
            due = self._due.pop(tenant)
        try:
            in_parallel(due)
        except Closed:
            raise
        except Exception as error:  # noqa: BLE001 - others are to lose theirs all the same
            self._tell(Trouble.by("discovery", error))
