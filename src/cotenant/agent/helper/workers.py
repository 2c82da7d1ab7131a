"""Threads that serve a fair queue: no tenant's work waits behind another's.

A tenant's items are done one after the other. One may wait for ever, for a file system that does
not answer; then only what is its own waits behind it, and another thread comes in place of its own.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from cotenant.agent.channel import Closed
from cotenant.agent.helper.fair_queue import FairQueue, QueueClosed

_T = TypeVar("_T")

_THREADS_MAX: Final = 32
# With those that are held up; the unit allows 256 for two of us and all processes that read files.
_WITH_HELD_UP_MAX: Final = 80
_PATIENCE_S: Final = 5.0
_SPARE: Final = 2  # Threads that stay when there is nothing to do.


@dataclass(slots=True)
class _Item:
    """Whose work a thread does, and since when."""

    tenant: str
    since: float


class Workers(Generic[_T]):
    """As many threads as tenants have work, within a bound."""

    def __init__(self, name: str, handle: Callable[[str, _T], None]) -> None:
        self._name = name
        self._handle = handle
        self._queue: FairQueue[_T] = FairQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads: set[threading.Thread] = set()
        self._busy: dict[threading.Thread, _Item] = {}

    def start(self) -> None:
        """Begin to serve."""
        with self._lock:
            self._add_thread()

    def put(self, tenant: str, item: _T, *, urgent: bool = True) -> bool:
        """Queue an item; false if its tenant's quota is used up."""
        return self._queue.put(tenant, item, urgent=urgent)

    def stop(self, seconds: float) -> None:
        """Take no more work; waits for what is under way, up to a bound."""
        self._queue.close()
        until = time.monotonic() + seconds
        for thread in list(self._threads):
            thread.join(max(0.0, until - time.monotonic()))

    @property
    def serving(self) -> bool:
        """Whether anybody is left to do the work."""
        return bool(self._threads)

    def held_up(self, seconds: float) -> dict[int, str]:
        """Threads that are at one item for longer than this, and whose it is."""
        before = time.monotonic() - seconds
        busy = list(self._busy.items())
        return {t.ident or 0: item.tenant for t, item in busy if item.since < before}

    def tend(self) -> set[str]:
        """Have others come in place of threads that are held up; who waits where none can."""
        with self._lock:
            if waiting := self._queue.waiting():
                self._add_if_needed()
        stuck = len(self.held_up(_PATIENCE_S)) >= _WITH_HELD_UP_MAX
        return waiting if stuck else set()

    def _add_if_needed(self) -> None:
        if self._idle or len(self._threads) >= _WITH_HELD_UP_MAX:
            return
        if len(self._threads) - len(self.held_up(_PATIENCE_S)) < _THREADS_MAX:
            self._add_thread()

    def _add_thread(self) -> None:
        thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._threads.add(thread)
        self._idle += 1
        try:
            thread.start()
        except RuntimeError:  # The host allows no more; whoever is free takes the next item.
            self._threads.discard(thread)
            self._idle -= 1

    def _run(self) -> None:
        me = threading.current_thread()
        try:
            with contextlib.suppress(Closed, QueueClosed):
                while self._serve_one(me):
                    pass
        finally:
            with self._lock:
                self._threads.discard(me)

    def _serve_one(self, me: threading.Thread) -> bool:
        """Do one item; false if there are threads enough without this one."""
        tenant, item = self._queue.get()
        with self._lock:
            self._idle -= 1
            self._add_if_needed()
        self._busy[me] = _Item(tenant, time.monotonic())
        try:
            self._handle(tenant, item)
        finally:
            del self._busy[me]
            self._queue.done(tenant)
        with self._lock:
            if self._idle >= _SPARE:
                return False
            self._idle += 1
        return True
