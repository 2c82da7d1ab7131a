"""A session for somebody who may see one tenant's rows, and nothing of others.

A filter is no wall: DuckDB evaluates what is asked before the filter if that is cheaper, and an
error then tells what it met. So what is not the tenant's is blank before anything is asked of it.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from cotenant.errors import QuestionError
from cotenant.query.derived.registry import DERIVED, in_order
from cotenant.query.engine.statement import Statement

# How views are made names every segment, whoever wrote to it.
_TELL_HOW: Final = frozenset(
    {"duckdb_views", "pg_views", "sqlite_master", "sqlite_schema", "sqlite_temp_master", "views"}
)


def about_others(names: Iterable[str]) -> str | None:
    """One of the names that is a table of what a tenant's own rows cannot tell."""
    derived = sorted(DERIVED.keys() & set(names))
    return next((n for n in derived if any(t.about_others for t in in_order([n]))), None)


def check(statement: Statement, tenant: str) -> None:
    """QuestionError if the answer would tell about others."""
    if statement.explained:
        raise QuestionError("EXPLAIN is refused here: a plan tells about every tenant's rows")
    told = about_others(statement.tables) or min(statement.tables & _TELL_HOW, default=None)
    if told:
        raise QuestionError(f"{told} tells about other tenants, and this page is of {tenant}")


def blanked(select: str, columns: Sequence[str], cgroups: Sequence[int]) -> str:
    """A SELECT with NULL in every column of a row that is not of these cgroups."""
    own = f"cgroup_id IN ({', '.join(map(str, cgroups))})"
    shown = ", ".join(f"CASE WHEN own THEN {name} END AS {name}" for name in columns)
    return f"SELECT {shown} FROM (SELECT *, {own} AS own FROM ({select}))"
