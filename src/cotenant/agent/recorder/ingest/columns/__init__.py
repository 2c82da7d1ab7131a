"""Column makers: each makes one kind of column, for any family of events.

A column is a time, a tenant, a kernel's name, and so on. bpf/common/event.h alone declares which
event has which columns, and names the maker of each.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

import pyarrow as pa

from cotenant.agent.recorder.ingest.batch import KNOWN, Batch, DrainPlan
from cotenant.agent.recorder.ingest.columns.owner import OWNER
from cotenant.schema.wire import Field, Record

_BESIDES: Final = {"cuda": ("seen_ns",)}  # What spans read, and no column has.


class Maker(Protocol):
    """Makes one kind of column."""

    def needs(self, field: Field) -> tuple[list[str], list[tuple[str, ...]]]:
        """The wire fields it reads: plain ones, and tuples to be numbered."""

    def make(self, batch: Batch, field: Field) -> Any:
        """The column, as an Arrow array."""


class Columns:
    """Makes all columns of one family of events."""

    def __init__(self, record: Record, makers: Mapping[str, Maker]) -> None:
        self.table = f"{record.family}_events"
        self.family = record.family
        self._made = [
            (field, makers[(field.maker or "copy").partition(":")[0]])
            for field in record.fields
            if field.column is not None
        ]
        plain, keys = [KNOWN, *_BESIDES.get(record.family, ())], []
        for field, maker in self._made:
            more_plain, more_keys = maker.needs(field)
            plain += more_plain
            keys += more_keys
        # Whose loss or row it is: the ledger of losses counts stored rows by it.
        keys.append(OWNER)
        self.plan = DrainPlan(record, plain, keys)

    def make(self, batch: Batch) -> Any:
        """The batch as rows of its table."""
        return pa.table(
            [maker.make(batch, field) for field, maker in self._made],
            names=[field.column for field, _ in self._made],
        )
