"""A table: its name, a sentence about it, and documented columns."""

from dataclasses import dataclass
from typing import Literal

ColumnType = Literal["int64", "int32", "int16", "int8", "float64", "string", "bool", "list<int64>"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a stored table."""

    name: str
    type: ColumnType
    doc: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A stored table; ``snapshot`` tables are rewritten whole, the others only grow.

    Rows of a ``united`` table are shown by a derived table of the same name, together with such as
    are derived from events. Those that ``hold`` are needed however long ago they were written.
    """

    name: str
    doc: str
    columns: tuple[Column, ...]
    snapshot: bool = False
    united: bool = False
    holds: bool = False

    def __hash__(self) -> int:
        """Names differ; hashing all columns would cost more than what is cached by table."""
        return hash(self.name)
