"""Which objects of a table a far store lacks."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from cotenant.store.manifest import Segment
from cotenant.store.periods import DAY_S, SECOND_NS, Period, around, told_by
from cotenant.store.retention import LONGER, USED_LATER

# A call is a row of the time at which it began, and comes when it has ended.
LATE_NS: Final = 60 * SECOND_NS
DAY_LATE_NS: Final = 7200 * SECOND_NS
FOLDED_BYTES: Final = 64 << 20  # A reader fetches an object whole.


@dataclass(frozen=True, slots=True)
class Wanted:
    """An object to be sent, and which ones it then stands for."""

    period: Period
    made_of: int
    from_near: tuple[Period, ...]  # These windows of the near store,
    from_far: tuple[Segment, ...]  # and these objects, of which the near store has let rows go.
    instead_of: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Closing:
    """What counts as closed."""

    now_ns: int
    at_rest: bool = False  # Nothing more will come.
    folds: bool = True
    keep_ns: int | None = None  # How old rows may become in the far store.

    def kept_from_ns(self, table: str) -> int:
        """The start of the first day of which the far store keeps this table."""
        if self.keep_ns is None:
            return 0
        longer = LONGER if table in USED_LATER else 1
        return around(max(self.now_ns - self.keep_ns * longer, 0), DAY_S).start_ns

    def window(self, window: Period) -> bool:
        """Whether a window's rows are all expected to be here."""
        return self.at_rest or window.end_ns + LATE_NS <= self.now_ns

    def day(self, day: Period) -> bool:
        """Whether a day is to be one object."""
        return self.folds and day.end_ns + DAY_LATE_NS <= self.now_ns


def wanted(
    near: Counter[int],
    far: dict[Period, tuple[int, Segment]],
    closing: Closing,
    bytes_per_row: float,
) -> Iterator[Wanted]:
    """What is to be sent of a table, oldest first.

    ``near`` is how many rows each window has, ``far`` how many were sent, and as which object. A
    period is sent again if it has got more rows since, never if it has fewer: those were let go.
    """
    days: dict[Period, dict[Period, tuple[int, Segment]]] = defaultdict(dict)
    for period, sent in far.items():
        days[around(period.start_ns, DAY_S)][period] = sent
    for start_ns in near:
        days.setdefault(around(start_ns, DAY_S), {})
    for day, there in sorted(days.items()):
        if day in there:
            yield from _again(day, near, there)
        elif closing.day(day) and _bytes(day, near, there, bytes_per_row) <= FOLDED_BYTES:
            yield _fold(day, near, there)
        else:
            yield from _windows(day, near, there, closing)


def _windows(
    day: Period, near: Counter[int], there: dict[Period, tuple[int, Segment]], closing: Closing
) -> Iterator[Wanted]:
    grown = [w for w in day.windows() if closing.window(w) and near[w.start_ns] > _rows(there, w)]
    # Rows that come late, one by one, go with the next window that closes.
    if closing.at_rest or any(window not in there for window in grown):
        for window in grown:
            instead_of = (there[window][1],) if window in there else ()
            yield Wanted(window, near[window.start_ns], (window,), (), instead_of)


def _rows(there: dict[Period, tuple[int, Segment]], period: Period) -> int:
    return there[period][0] if period in there else 0


def _again(
    day: Period, near: Counter[int], there: dict[Period, tuple[int, Segment]]
) -> Iterator[Wanted]:
    """A folded day that has got more rows since."""
    windows = tuple(w for w in day.windows() if near[w.start_ns])
    rows = sum(near[w.start_ns] for w in windows)
    if rows > there[day][0]:
        yield Wanted(day, rows, windows, (), tuple(segment for _, segment in there.values()))


def _fold(day: Period, near: Counter[int], there: dict[Period, tuple[int, Segment]]) -> Wanted:
    fewer = [w for w, (rows, _) in there.items() if near[w.start_ns] < rows]
    windows = tuple(w for w in day.windows() if near[w.start_ns] and w not in fewer)
    made_of = sum(near[w.start_ns] for w in windows) + sum(there[w][0] for w in fewer)
    from_far = tuple(there[w][1] for w in sorted(fewer))
    return Wanted(day, made_of, windows, from_far, tuple(s for _, s in there.values()))


def _bytes(
    day: Period,
    near: Counter[int],
    there: dict[Period, tuple[int, Segment]],
    bytes_per_row: float,
) -> float:
    """About how large a day is as one object."""
    unsent = sum(near[w.start_ns] for w in day.windows() if w not in there)
    return unsent * bytes_per_row + sum(segment.bytes for _, segment in there.values())


def sent(
    far: Iterable[Segment], whole: Callable[[Period], bool]
) -> dict[Period, tuple[int, Segment]]:
    """How many rows were sent of each period, and as which object.

    Where ``whole`` rows are wanted and others were sent, it counts as one less: the near store has
    to have all of them to take their place.
    """
    found = {}
    for segment in far:
        if told := told_by(segment.path):
            less = int(whole(told.period) and not told.whole)
            found[told.period] = told.made_of - less, segment
    return found
