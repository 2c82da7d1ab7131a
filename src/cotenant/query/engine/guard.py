"""Isolation of a reader that may see one tenant's rows only.

A WHERE clause does not isolate: DuckDB may evaluate a question's expressions before it, and an
error message then reveals a value of another tenant's row. So columns of such rows are replaced by
NULL below anything that a question can reach.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from cotenant.errors import QuestionError
from cotenant.query.derived.registry import DERIVED, in_order
from cotenant.query.engine.statement import Statement

# The definition of a view lists every segment, those of other tenants included.
_DEFINITIONS: Final = frozenset(
    {"duckdb_views", "pg_views", "sqlite_master", "sqlite_schema", "sqlite_temp_master", "views"}
)


def about_others(names: Iterable[str]) -> str | None:
    """One of these tables that is computed from the rows of other tenants; None if none is."""
    derived = sorted(DERIVED.keys() & set(names))
    return next((n for n in derived if any(t.about_others for t in in_order([n]))), None)


def check(statement: Statement, tenant: str) -> None:
    """QuestionError if the answer would reveal other tenants."""
    if statement.explained:
        raise QuestionError("EXPLAIN is refused here: a plan reveals other tenants' rows")
    table = about_others(statement.tables) or min(statement.tables & _DEFINITIONS, default=None)
    if table:
        raise QuestionError(f"{table} covers other tenants, and this page serves only {tenant}")


def blanked(select: str, columns: Sequence[str], cgroups: Sequence[int]) -> str:
    """A SELECT with NULL in every column of a row that is not of these cgroups."""
    own = f"cgroup_id IN ({', '.join(map(str, cgroups))})"
    shown = ", ".join(f"CASE WHEN own THEN {name} END AS {name}" for name in columns)
    return f"SELECT {shown} FROM (SELECT *, {own} AS own FROM ({select}))"
