"""What a family of events is, to whoever records, shows, exports or documents events."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cotenant.schema.table import Table

THREAD: Final = "comm || ' ' || tid::varchar"  # SQL: a track for each thread.


@dataclass(frozen=True, slots=True)
class Family:
    """The events of one table. All SQL is over that table; what is not said has a default."""

    table: Table
    title: str  # Of its lanes on the timeline.
    doc: str  # What its rows are, for the reference.
    gpu: bool = False  # Calls of a GPU library; others are raised by the kernel.
    # The timeline.
    label: str = "op"  # SQL: what a slice is called.
    shown: str = "true"  # SQL: which rows are slices.
    lanes_by: tuple[str, ...] = ()  # Of pid and stream, those that have lanes of their own.
    # A trace for Perfetto.
    track: str = ""  # SQL: a name that no other family gives a track; else by thread.
    slice: str = "op"  # SQL: what a slice is called.
    arguments: tuple[str, ...] = ()  # SQL: what else it says; else all columns.
    # Activity, per second.
    rates: Mapping[str, str] | None = None  # SQL by column; None counts events.
    totals: Mapping[str, str] | None = None  # The same, over ``totals``.
    # What its events are about, if there are few enough for a sum each.
    rollup_name: str | None = None

    @property
    def name(self) -> str:
        """The stem of its table, BPF object and page of documentation."""
        return self.table.name.removesuffix("_events")

    @property
    def has_duration(self) -> bool:
        """Whether its events last."""
        return any(column.name == "duration_ns" for column in self.table.columns)
