"""The shape of a table that is written once a second."""

from collections.abc import Iterable
from typing import Any, Protocol


class Sampler(Protocol):
    """Makes the rows of one table."""

    @property
    def table(self) -> str:
        """The table that the rows belong to."""

    def sample(self, now_ns: int) -> Any | None:
        """Rows as of now, or since the last sample; None if there are none."""


class RowSink(Protocol):
    """Where rows go."""

    def append(self, table: str, rows: Any) -> None:
        """Add rows to a table."""


def write_samples(samplers: Iterable[Sampler], sink: RowSink, now_ns: int) -> None:
    """One sample of each, in order, into the sink."""
    for sampler in samplers:
        rows = sampler.sample(now_ns)
        if rows is not None:
            sink.append(sampler.table, rows)
