"""The periods that objects of a far store cover, and the names that say so.

An object holds one table's rows of one node and one period. Its name tells the period, and how
many rows of the near store it was made of: rows only ever come, so the greater number is the later.
One whose rows were changed on the way, such as added up by the minute, has an ``m`` behind it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from cotenant.store.layout import partition

WINDOW_S: Final = 600
DAY_S: Final = 86_400
SECOND_NS: Final = 1_000_000_000
WINDOW_NS: Final = WINDOW_S * SECOND_NS
_NAME: Final = re.compile(r"(\d{1,19})-(\d{1,6})-(\d{1,18})(m?)\.parquet")


@dataclass(frozen=True, order=True, slots=True)
class Period:
    """A window or a day, of UTC."""

    start_ns: int
    seconds: int

    @property
    def end_ns(self) -> int:
        """The first moment after it."""
        return self.start_ns + self.seconds * SECOND_NS

    def holds(self, other: "Period") -> bool:
        """Whether the other lies within."""
        return self.start_ns <= other.start_ns and other.end_ns <= self.end_ns

    def meets(self, other: "Period") -> bool:
        """Whether both have a moment in common."""
        return self.start_ns < other.end_ns and other.start_ns < self.end_ns

    def windows(self) -> Iterator["Period"]:
        """The windows that it is made of."""
        for start_ns in range(self.start_ns, self.end_ns, WINDOW_NS):
            yield Period(start_ns, WINDOW_S)


def around(time_ns: int, seconds: int) -> Period:
    """The period of this length that a moment lies in."""
    length_ns = seconds * SECOND_NS
    return Period(time_ns // length_ns * length_ns, seconds)


@dataclass(frozen=True, slots=True)
class ObjectName:
    """What the name of an object tells."""

    period: Period
    made_of: int
    whole: bool  # Its rows are those that were recorded.


def object_path(table: str, node: str, told: ObjectName) -> str:
    """Where a far store has these rows."""
    period, mark = told.period, "" if told.whole else "m"
    folder = partition(table, node=node, now_ns=period.start_ns)
    return f"{folder}/{period.start_ns}-{period.seconds}-{told.made_of}{mark}.parquet"


def changed_periods(paths: Iterable[str]) -> list[Period]:
    """The periods of those objects whose rows were changed on the way."""
    return [told.period for told in map(told_by, paths) if told is not None and not told.whole]


def told_by(path: str) -> ObjectName | None:
    """What its name tells of an object; None if it is none of a period."""
    found = _NAME.fullmatch(path.rpartition("/")[2])
    if found is None or not int(found[2]):
        return None
    return ObjectName(Period(int(found[1]), int(found[2])), int(found[3]), not found[4])
