"""Looks whether processes have changed code that is probed: some at once, some a while later."""

from collections.abc import Callable
from functools import partial

from cotenant.agent.helper.fair_queue import PassedOver
from cotenant.agent.helper.libraries.libraries import Libraries
from cotenant.agent.helper.timetable import Timetable
from cotenant.probes.inodes import Inode

Look = Callable[[], None]


class SecondLooks:
    """Has whoever brought a file look at it again; however often a tenant gives cause, once at a
    time.
    """

    def __init__(
        self,
        libraries: Libraries,
        timetable: Timetable,
        put: Callable[[str, Look], bool],
        passed_over: PassedOver,
    ) -> None:
        self._libraries = libraries
        self._timetable = timetable
        self._put = put
        self._passed_over = passed_over
        self._waiting: set[tuple[str, Inode, float]] = set()

    def add(self, tenant: str, shown: Inode, wait_s: float) -> None:
        """This tenant may have changed the file that a record shows."""
        key = tenant, shown, wait_s
        if key in self._waiting:
            return
        self._waiting.add(key)
        if wait_s:
            self._timetable.add(wait_s, partial(self._hand_over, key))
        else:
            self._hand_over(key)

    def _hand_over(self, key: tuple[str, Inode, float]) -> None:
        def begin(look: Look) -> None:
            self._waiting.discard(key)
            look()

        tenant, shown, _ = key
        looks = self._libraries.second_looks(shown)
        handed = [self._put(who, partial(begin, look)) for who, look in looks]
        if not any(handed):
            self._waiting.discard(key)
        if not all(handed):
            self._passed_over.add("changes", tenant)
