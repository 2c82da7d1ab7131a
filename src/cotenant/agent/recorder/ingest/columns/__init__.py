"""From wire to table: each column is made by the maker that its declaration names.

A maker knows one sort of column (a time, a tenant, a kernel's name), never a kind of event; which
event has which column is declared in bpf/common/event.h alone.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from cotenant.agent.recorder.ingest.batch import KNOWN, Batch, DrainPlan
from cotenant.agent.recorder.ingest.columns.owner import OWNER
from cotenant.schema.wire import Field, Record


class Maker(Protocol):
    """Makes one sort of column."""

    def needs(self, field: Field) -> tuple[list[str], list[tuple[str, ...]]]:
        """The wire fields it reads: plain ones, and tuples to be numbered."""

    def make(self, batch: Batch, field: Field) -> Any:
        """The column, as an Arrow array."""


class Columns:
    """Makes all columns of one kind of event."""

    def __init__(self, record: Record, makers: Mapping[str, Maker]) -> None:
        self.table = f"{record.family}_events"
        self.family = record.family
        self._made = [
            (field, makers[(field.maker or "copy").partition(":")[0]])
            for field in record.fields
            if field.column is not None
        ]
        plain, keys = [KNOWN], []
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
