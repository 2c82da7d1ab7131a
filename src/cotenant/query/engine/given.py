"""Rows that other sessions computed, as tables of the schema ``given``."""

from collections.abc import Mapping
from typing import Any

from cotenant.query.engine.cuts import GIVEN
from cotenant.query.text.sql import identifier


def give(connection: Any, tables: Mapping[str, Any]) -> None:
    """Create or replace them, with the types that they had before they became Arrow's."""
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {GIVEN}")
    for name, rows in tables.items():
        columns = ", ".join(map(_column, rows.schema)) or "*"
        connection.register("given_now", rows)
        try:
            connection.execute(
                f"CREATE OR REPLACE TABLE {GIVEN}.{identifier(name)} AS "
                f"SELECT {columns} FROM given_now"
            )
        finally:
            connection.unregister("given_now")


def _column(field: Any) -> str:
    import pyarrow as pa

    name = identifier(field.name)
    # What DuckDB has as a HUGEINT.
    return f"{name}::HUGEINT AS {name}" if field.type == pa.decimal128(38, 0) else name
