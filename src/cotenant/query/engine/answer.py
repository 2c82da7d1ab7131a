"""An answer: rows, the time they cover, and how complete they are."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Interval:
    """From the first row to the last."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Loss:
    """What one family of events lost in the interval of an answer."""

    family: str
    seen: int
    lost: int  # Neither a row nor counted in another row's weight.
    shed: int  # No row, but counted in the weight of another.


@dataclass(frozen=True, slots=True)
class Hole:
    """A time in which something of an answer's tables went unseen, for one reason."""

    reason: str
    families: tuple[str, ...]  # Empty where it is all of them.
    tenants: tuple[str, ...]  # The first few; empty where nobody knows whose it was.
    interval: Interval
    blind_ns: int  # How long, of the tenant that was unseen longest.
    unseen: int | None  # How much; None if that is not known.


@dataclass(frozen=True, slots=True)
class Standing:
    """The SQL behind an answer, the interval it covers, and what is missing from it."""

    sql: str
    interval: Interval | None = None  # None where no table of the question has a time.
    losses: tuple[Loss, ...] = ()  # Only families that the question touches.
    missing_segments: int = 0  # Named by a manifest, but not found.
    unrecorded: tuple[str, ...] = ()  # What the kernel could not record, in a few words each.
    holes: tuple[Hole, ...] = ()
    left_behind: tuple[str, ...] = ()  # Tables of which a shipper left rows on their node.

    @property
    def complete(self) -> bool:
        """Whether every event of the interval is in the rows."""
        lacking = self.missing_segments or self.unrecorded or self.holes or self.left_behind
        return not lacking and not any(loss.lost or loss.shed for loss in self.losses)


@dataclass(frozen=True, slots=True)
class Answer:
    """All rows of an answer (a ``pyarrow.Table``), and its standing."""

    table: Any
    standing: Standing
    truncated: bool = field(default=False)  # The row limit cut it short.

    @property
    def sql(self) -> str:
        """The SQL that ran."""
        return self.standing.sql

    @property
    def interval(self) -> Interval | None:
        """The interval that the rows cover."""
        return self.standing.interval

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What was lost in that interval."""
        return self.standing.losses

    @property
    def complete(self) -> bool:
        """Whether every event of the interval is in the rows."""
        return self.standing.complete

    def rows(self) -> list[dict[str, Any]]:
        """The rows as plain values."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows
