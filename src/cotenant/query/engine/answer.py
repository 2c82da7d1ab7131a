"""An answer: rows, the time they cover, and how complete they are."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Span:
    """From the first to the last moment that there are rows of."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Loss:
    """What one family of events lost in the span of an answer."""

    family: str
    seen: int
    lost: int  # Gone: neither a row nor within another row's weight.
    shed: int  # No row of its own, but within the weight of others.


@dataclass(frozen=True, slots=True)
class Standing:
    """What can be said of an answer besides its rows."""

    sql: str
    span: Span | None = None  # None where nothing that was asked has a time.
    losses: tuple[Loss, ...] = ()  # Only families that the question touches.
    missing_segments: int = 0  # Named by a manifest, and not there.
    unrecorded: tuple[str, ...] = ()  # What the kernel could not give, each in a few words.

    @property
    def complete(self) -> bool:
        """Whether every event of the span is in the rows."""
        lacking = self.missing_segments or self.unrecorded
        return not lacking and not any(loss.lost or loss.shed for loss in self.losses)


@dataclass(frozen=True, slots=True)
class Answer:
    """All rows of an answer (a ``pyarrow.Table``), and where they stand."""

    table: Any
    standing: Standing
    truncated: bool = field(default=False)  # There were more rows than asked for.

    @property
    def sql(self) -> str:
        """What ran."""
        return self.standing.sql

    @property
    def span(self) -> Span | None:
        """The time that the rows cover."""
        return self.standing.span

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What was lost in that time."""
        return self.standing.losses

    @property
    def complete(self) -> bool:
        """Whether every event of the span is in the rows."""
        return self.standing.complete

    def rows(self) -> list[dict[str, Any]]:
        """The rows as plain values."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows
