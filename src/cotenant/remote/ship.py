"""Ships a node: objects first, the manifest that names them last.

Whenever it is ended, the far store is what its manifest says; what was put without being named is
found again by its name, and not sent twice.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from cotenant.remote.far import FarNode, Sent
from cotenant.remote.near import Changed, NearNode
from cotenant.remote.objects import pack, pack_snapshot
from cotenant.remote.pace import Pace
from cotenant.remote.place import FarPlace
from cotenant.remote.plan import Closing, Wanted, sent, wanted
from cotenant.remote.shipped import Shipped
from cotenant.schema import TABLES
from cotenant.store.absence import EVER_NS, Absent, Times, both, either, outside
from cotenant.store.manifest import Machine, Segment
from cotenant.store.periods import (
    WINDOW_NS,
    WINDOW_S,
    ObjectName,
    Period,
    around,
    changed_periods,
    object_path,
    told_by,
)


@dataclass
class Shipper:
    """Sends what a far store lacks of a node, pass by pass."""

    near: NearNode
    place: FarPlace
    tables: tuple[Shipped, ...]
    pace: Pace = field(default_factory=Pace)
    takes_over: bool = False  # A node of this name that was another machine's.
    time_wanted: Callable[[str], tuple[int, int]] | None = None  # By table; None is all.
    _resumes: bool = True
    _nothing: set[str] = field(default_factory=set)  # Paths of objects that would have no rows.

    def ship(self, closing: Closing) -> tuple[Sent, int | None]:
        """One pass: what was sent, and until when rows are there."""
        while True:
            try:
                return self._ship(closing)
            except Changed:
                continue  # Merged meanwhile: the next manifest names what it was merged into.

    def _ship(self, closing: Closing) -> tuple[Sent, int | None]:
        self.near.refresh()
        self.place.prepare()
        far = FarNode(self.place, self.near.node, self.pace, resumes=self._resumes)
        far.check_machine(Machine(self.near.manifest.machine, self.takes_over))
        self._resumes = True
        far.check()
        far.let_go(closing.kept_from_ns)
        gone = tuple(s for s in self.near.manifest.missing if self._lacks(far, s, closing))
        absent = self._absent(far, closing)
        self.near.manifest = replace(self.near.manifest, missing=gone, absent=absent)
        for shipped in self.tables:
            if not TABLES[shipped.table].snapshot:
                self._ship_rows(far, shipped, closing)
        # Who is there changes all the time; it is told with the rows that name them.
        if far.changed or closing.at_rest:
            self._ship_snapshots(far)
        far.name(self.near.manifest)
        self._resumes = False
        return far.sent, far.until_ns

    def _lacks(self, far: FarNode, gone: Segment, closing: Closing) -> bool:
        """Whether rows that the near store has lost are wanted, and were not sent before."""
        shipped = next((s for s in self.tables if gone.table in s.made_from), None)
        if shipped is None:
            return False
        if gone.min_ns is None or gone.max_ns is None:
            return all(s.key != gone.key for s in far.segments(gone.table))
        first_ns = gone.min_ns // WINDOW_NS * WINDOW_NS
        windows = range(first_ns, gone.max_ns + 1, WINDOW_NS)
        counts = self._counts(far, shipped, 0)
        if gone.max_ns < closing.kept_from_ns(gone.table) or not any(
            self._wants(gone.table, start_ns) for start_ns in windows
        ):
            return False
        told = filter(None, (told_by(s.path) for s in far.segments(shipped.table)))
        sent_then = [t for t in told if any(t.period.holds(around(w, WINDOW_S)) for w in windows)]
        left = sum(counts[w.start_ns] for t in sent_then for w in t.period.windows())
        return sum(t.made_of for t in sent_then) - left < gone.rows

    def _wants(self, table: str, start_ns: int) -> bool:
        if self.time_wanted is None:
            return True
        first_ns, end_ns = self.time_wanted(table)
        return first_ns <= start_ns < end_ns

    def _absent(self, far: FarNode, closing: Closing) -> Absent:
        """Of which times the far store will have no rows: neither from before nor now."""
        found = dict(far.absent)
        # What the near store has let go of the time after the last row was never sent.
        after_ns = 0 if far.until_ns is None else far.until_ns + 1
        unsent: Times = ((after_ns, EVER_NS),) if self.time_wanted is None else ()
        for shipped in self.tables:
            table = shipped.table
            here = either(*(self.near.manifest.absent.get(t, ()) for t in shipped.made_from))
            if self.time_wanted is not None:
                here = either(here, outside(*self.time_wanted(table)))
            before = here if far.is_new else found.pop(table, ())
            kept_from_ns = closing.kept_from_ns(table)
            times = either(both(before, here), both(here, unsent), ((0, kept_from_ns),))
            if times and not TABLES[table].snapshot:
                found[table] = times
        return found

    def _ship_rows(self, far: FarNode, shipped: Shipped, closing: Closing) -> None:
        table, changed = shipped.table, self.near.changed_periods(shipped.table)

        def whole(period: Period) -> bool:
            return shipped.change is None and not any(period.meets(other) for other in changed)

        there = sent(far.segments(table), whole)
        counts = self._counts(far, shipped, closing.kept_from_ns(table))
        for want in wanted(counts, there, closing, self._bytes_per_row(shipped)):
            all_whole = whole(want.period) and not changed_periods(s.path for s in want.from_far)
            told = ObjectName(want.period, want.made_of, all_whole)
            path = object_path(table, self.near.node, told)
            if path in self._nothing:
                continue
            packed = pack(table, path, self._slices(far, shipped, want))
            if packed is None:
                self._nothing.add(path)
                continue
            far.put(packed, want.instead_of)
            far.name_some(self.near.manifest)

    def _counts(self, far: FarNode, shipped: Shipped, from_ns: int) -> Counter[int]:
        """The rows of each window; none of those that another table tells the same of already."""
        counts: Counter[int] = Counter()
        for table in shipped.made_from:
            counts.update(self.near.counts(table))
        told = [(s.min_ns, s.max_ns) for table in shipped.same for s in far.segments(table)]
        table = shipped.table
        return Counter(
            {
                start_ns: rows
                for start_ns, rows in counts.items()
                if start_ns >= from_ns
                and self._wants(table, start_ns)
                and not _within(start_ns, told)
            }
        )

    def _bytes_per_row(self, shipped: Shipped) -> float:
        segments = [s for table in shipped.made_from for s in self.near.segments(table)]
        return sum(s.bytes for s in segments) / max(1, sum(s.rows for s in segments))

    def _slices(self, far: FarNode, shipped: Shipped, want: Wanted) -> Iterator[Any]:
        for window in want.from_near:
            slices = (p for t in shipped.made_from for p in self.near.slices(t, window))
            yield from slices if shipped.change is None else [shipped.change(slices)]
        for segment in want.from_far:
            yield far.rows(segment)

    def _ship_snapshots(self, far: FarNode) -> None:
        for shipped in self.tables:
            if TABLES[shipped.table].snapshot:
                for segment in self.near.segments(shipped.table):
                    self._ship_snapshot(far, segment)

    def _ship_snapshot(self, far: FarNode, segment: Segment) -> None:
        before = [s for s in far.segments(segment.table) if s.key == segment.key]
        packed = pack_snapshot(segment, self.near.content(segment))
        if packed is None:
            return
        if packed.segment in before:
            packed.content.close()
        else:
            far.put(packed, tuple(before))


def _within(start_ns: int, told: Iterable[tuple[int | None, int | None]]) -> bool:
    """Whether rows between these times may be of the window that starts then."""
    return any(
        (first or 0) < start_ns + WINDOW_NS and (last or 0) >= start_ns for first, last in told
    )
