"""Tiles: an interval of the timeline at the resolution of a screen.

A slice wider than a cell is kept as it is, at any zoom. Narrower ones are summed per cell, unless
the tile has few rows: zooming in ends with every slice.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from cotenant.query.engine.session import Session
from cotenant.query.screens.timeline.lanes import Lanes
from cotenant.query.screens.timeline.rows import duration, rows
from cotenant.schema.families import FAMILIES
from cotenant.schema.family import Family

CELLS: Final = 1024
MAX_CELL_NS: Final = 1 << 50  # 1,024 of them are 36 years.
RAW_ROWS: Final = 3_000  # Up to this many rows of a tile, each is a slice.
MOST_SLICES: Final = 12_000


@dataclass(slots=True)
class Tile:
    """Columns; times are in ns from ``start_ns``, names are indices into ``names``."""

    start_ns: int
    cell_ns: int
    names: list[str] = field(default_factory=list)
    # Cells: where many short slices are.
    cell_lane: list[int] = field(default_factory=list)
    cell: list[int] = field(default_factory=list)
    cell_events: list[int] = field(default_factory=list)
    cell_in_calls_ns: list[int] = field(default_factory=list)
    cell_name: list[int] = field(default_factory=list)  # Of the longest slice in it.
    # Slices, each with its thread, which with its time finds its row again.
    lane: list[int] = field(default_factory=list)
    at_ns: list[int] = field(default_factory=list)
    duration_ns: list[int] = field(default_factory=list)
    name: list[int] = field(default_factory=list)
    tid: list[int] = field(default_factory=list)
    raw: bool = True  # Whether every row is a slice here.

    @property
    def end_ns(self) -> int:
        """The first moment after it."""
        return self.start_ns + CELLS * self.cell_ns


def tile(session: Session, lanes: Lanes, start_ns: int, cell_ns: int) -> Tile:
    """The tile of 1,024 cells from ``start_ns`` on."""
    made = Tile(start_ns, cell_ns)
    index: dict[str, int] = {}
    longest = lanes.survey.longest or {}
    for name, family in FAMILIES.items():
        if name not in longest:
            continue
        _add(made, session, lanes, index, _TilePart(family, made, longest[name]))
    made.names = list(index)
    return made


@dataclass(frozen=True, slots=True)
class _TilePart:
    """One family's rows in a tile."""

    family: Family
    tile: Tile
    longest_ns: int

    def overlapping(self) -> str:
        start, end = self.tile.start_ns, self.tile.end_ns
        # A call that began before the tile reaches into it only if it is long enough.
        return (
            f"timestamp_ns >= {start - self.longest_ns} AND timestamp_ns < {end} "
            f"AND timestamp_ns + {duration(self.family)} >= {start}"
        )

    def rows(self) -> str:
        return f"{rows(self.family)} AND {self.overlapping()}"

    def counted(self) -> str:
        cell = self.tile.cell_ns
        wider = ", ".join(
            f"count(*) FILTER (d >= {cell * times}) AS wider_{times}" for times in _WIDTHS
        )
        return f"SELECT count(*) AS rows, {wider} FROM ({self.rows()})"

    def cells(self, narrower_ns: int) -> str:
        start, cell = self.tile.start_ns, self.tile.cell_ns
        return (
            "SELECT cgroup_id, pid, stream, "
            f"greatest((began_ns - {start}) // {cell}, 0)::INTEGER AS cell, "
            "sum(weight)::BIGINT AS events, sum(d * weight)::BIGINT AS in_calls_ns, "
            f"max_by(label, d) AS label FROM ({self.rows()}) WHERE d < {narrower_ns} GROUP BY ALL"
        )

    def slices(self, wider_ns: int) -> str:
        return (
            f"SELECT cgroup_id, pid, stream, began_ns - {self.tile.start_ns} AS offset_ns, "
            f"d, label, tid FROM ({self.rows()}) WHERE d >= {wider_ns} "
            f"ORDER BY began_ns, d DESC LIMIT {MOST_SLICES}"
        )


_WIDTHS: Final = (2, 8, 32, 128, 512)  # In cells.


def _threshold(counts: dict[str, Any], cell_ns: int) -> int:
    """The shortest duration that is a slice of its own."""
    if counts["rows"] <= RAW_ROWS:
        return 0
    for width in _WIDTHS:
        if counts[f"wider_{width}"] <= MOST_SLICES:
            return cell_ns * width
    return cell_ns * _WIDTHS[-1]


def _add(
    made: Tile, session: Session, lanes: Lanes, index: dict[str, int], part: _TilePart
) -> None:
    (counts,) = session.ask(part.counted()).rows()
    if not counts["rows"]:
        return
    family = part.family.name
    threshold = _threshold(counts, made.cell_ns)
    if threshold:
        made.raw = False
        found = session.ask(part.cells(threshold)).table
        made.cell_lane += _lanes(lanes, family, found)
        made.cell += found["cell"].to_pylist()
        made.cell_events += found["events"].to_pylist()
        made.cell_in_calls_ns += found["in_calls_ns"].to_pylist()
        made.cell_name += _names(index, found)
    found = session.ask(part.slices(threshold)).table
    made.lane += _lanes(lanes, family, found)
    made.at_ns += found["offset_ns"].to_pylist()
    made.duration_ns += found["d"].to_pylist()
    made.name += _names(index, found)
    made.tid += found["tid"].to_pylist()


def _lanes(lanes: Lanes, family: str, found: Any) -> list[int]:
    columns = (found[name].to_pylist() for name in ("cgroup_id", "pid", "stream"))
    return [lanes.lane_of(family, key) for key in zip(*columns, strict=True)]


def _names(index: dict[str, int], found: Any) -> list[int]:
    return [index.setdefault(name, len(index)) for name in found["label"].to_pylist()]
