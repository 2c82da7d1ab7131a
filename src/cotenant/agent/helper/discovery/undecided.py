"""Files that cannot be probed now, or that somebody else's thread looks at: they come again."""

from collections import Counter
from collections.abc import Callable
from typing import Final

from cotenant.agent.helper.timetable import Timetable

_PAUSES_S: Final = (1.5, 5.0, 5.0, 60.0)
_EACH_MAX: Final = 256  # Of one tenant.


class Undecided:
    """Waits, and hands the work over; for a tenant with many not for all."""

    def __init__(
        self, timetable: Timetable, put: Callable[[str, Callable[[], None]], None]
    ) -> None:
        self._timetable = timetable
        self._put = put
        self._waiting: Counter[str] = Counter()

    def add(self, tenant: str, attempt: int, again: Callable[[], None]) -> None:
        """So many attempts decided nothing."""
        if self._waiting[tenant] >= _EACH_MAX:
            return
        self._waiting[tenant] += 1

        def put() -> None:
            self._waiting[tenant] -= 1
            if not self._waiting[tenant]:
                del self._waiting[tenant]
            self._put(tenant, again)

        self._timetable.add(_PAUSES_S[min(attempt, len(_PAUSES_S) - 1)], put)
