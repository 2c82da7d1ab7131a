"""Every stored table: its columns, and their layout in the ring."""

from typing import Final

from cotenant.schema.dimensions import DIMENSIONS
from cotenant.schema.events import EVENTS
from cotenant.schema.table import Column, Table

TABLES: Final[dict[str, Table]] = {table.name: table for table in (*EVENTS, *DIMENSIONS)}

__all__ = ["DIMENSIONS", "EVENTS", "TABLES", "Column", "Table"]
