"""Every stored table: its columns, and their layout in the ring."""

from typing import Final

from cotenant.schema.dimensions import DIMENSIONS
from cotenant.schema.events import EVENTS
from cotenant.schema.folding import FOLDED
from cotenant.schema.table import Column, Table

TABLES: Final[dict[str, Table]] = {t.name: t for t in (*EVENTS, *DIMENSIONS, *FOLDED)}

__all__ = ["DIMENSIONS", "EVENTS", "FOLDED", "TABLES", "Column", "Table"]
