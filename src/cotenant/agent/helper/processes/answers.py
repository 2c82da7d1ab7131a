"""When a question is answered: by everybody whose files answer."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

_LATE_S: Final = 10.0


class Answers:
    """Counts what tenants have open, and tells when there is nothing left worth waiting for.

    Whoever asks again has waited long enough. So a tenant that was late is not waited for, for a
    while: its own answers come when they come, and nobody else's names come too late for it.
    """

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._open: Counter[str] = Counter()
        self._late: dict[str, float] = {}
        self._questions: dict[int, set[str]] = {}
        self._lock = threading.Lock()

    def begin(self, tenant: str) -> None:
        """Something of this tenant's is to be looked at."""
        with self._lock:
            self._open[tenant] += 1

    def end(self, tenant: str) -> None:
        """It is told."""
        with self._lock:
            self._open[tenant] -= 1
            if self._open[tenant]:
                return
            del self._open[tenant]
            for awaited in self._questions.values():
                awaited.discard(tenant)
            answered = self._take_answered()
        self._tell_all(answered)

    def wanted(self, number: int) -> None:
        """Tell this number when all is told that was begun before."""
        now = time.monotonic()
        with self._lock:
            late = set().union(*self._questions.values())
            self._late = {who: until for who, until in self._late.items() if until > now}
            self._late.update(dict.fromkeys(late, now + _LATE_S))
            self._questions = {number: set(self._open) - self._late.keys()}
            answered = self._take_answered()
        self._tell_all(answered)

    def _take_answered(self) -> list[int]:
        done = [number for number, awaited in self._questions.items() if not awaited]
        for number in done:
            del self._questions[number]
        return done

    def _tell_all(self, numbers: list[int]) -> None:
        for number in numbers:
            self._tell(number)
