"""Work on tenants' files, each done by a tenant's own thread: a file may never answer."""

import time
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TookTooLong
from typing import Final

from cotenant.agent.helper.fair_queue import OURS

_PATIENCE_S: Final = 5.0

Work = Callable[[], None]
Attempt = Callable[[], bool]


class ByOwner:
    """Hands work to the threads of tenants, and waits for it for a while."""

    def __init__(self) -> None:
        self.put: Callable[[str, Work], bool] = _at_once
        self._late: list[Future[bool]] = []
        self._waiting: set[tuple[str, Hashable]] = set()

    def all_done(self, attempts: Iterable[tuple[str, Hashable, Attempt]]) -> bool:
        """Whether all of these succeed in time, and all that came before is done.

        Who calls this is none of the owners but us. What still waits for its turn is not handed
        over twice.
        """
        until = time.monotonic() + _PATIENCE_S
        handed = [self._hand(*attempt) for attempt in attempts]
        done = all([_result(future, until) for future in handed])
        self._late = [future for future in (*self._late, *handed) if not future.done()]
        return done and not self._late

    def _hand(self, tenant: str, what: Hashable, attempt: Attempt) -> "Future[bool]":
        future: Future[bool] = Future()
        mine = tenant, what
        if mine in self._waiting:
            future.set_result(False)
            return future
        self._waiting.add(mine)

        def work() -> None:
            self._waiting.discard(mine)
            try:
                future.set_result(attempt())
            except BaseException:
                future.set_result(False)
                raise

        put = _at_once if tenant == OURS else self.put
        if not put(tenant, work):
            self._waiting.discard(mine)
            future.set_result(False)
        return future


def _at_once(_: str, work: Work) -> bool:
    work()
    return True


def _result(future: "Future[bool]", until: float) -> bool:
    try:
        return future.result(max(0.0, until - time.monotonic()))
    except TookTooLong:
        return False
