"""Isolation of a reader that may see one tenant's rows only.

A WHERE clause does not isolate: DuckDB may evaluate a question's expressions before it, and an
error message then reveals a value of another tenant's row. So columns of such rows are replaced by
NULL below anything that a question can reach.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cotenant.errors import QuestionError
from cotenant.query.derived.registry import DERIVED, in_order
from cotenant.query.engine.statement import Statement
from cotenant.schema import TABLES

# The definition of a view lists every segment, those of other tenants included, so a page of one
# tenant has no catalog: it names our tables, and functions that make rows of nothing.
_TABLES: Final = frozenset({*TABLES, *DERIVED, "cgroups"})
# The views of completeness are in `whole`, too, and some of them see other tenants.
_QUALIFIED: Final = frozenset(
    {*(f"main.{name}" for name in _TABLES), *(f"whole.{name}" for name in TABLES)}
)
_TABLE_FUNCTIONS: Final = frozenset(
    {"generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row", "unnest"}
)
_SETTINGS: Final = frozenset({"current_setting"})
_SHOWN: Final = _TABLES | {"tables"}


@dataclass(frozen=True, slots=True)
class DuckDBNames:
    """What DuckDB brings along: views of its catalog, and functions that look into it."""

    views: frozenset[str]
    functions: frozenset[str]


def own_names(connection: Any) -> DuckDBNames:
    """Ask DuckDB itself: each version has others."""
    views = connection.execute("SELECT view_name FROM duckdb_views() WHERE internal").fetchall()
    functions = connection.execute(
        "SELECT function_name FROM duckdb_functions() WHERE function_type LIKE 'table%' "
        "OR regexp_matches(macro_definition, '\\bfrom\\b', 'i')"
    ).fetchall()
    return DuckDBNames(_lower(views), _lower(functions))


def _lower(rows: Iterable[tuple[str]]) -> frozenset[str]:
    return frozenset(name.lower() for (name,) in rows)


def without_paths(text: str, store: Path) -> str:
    """The words of an error, but for where the store and its segments lie."""
    return re.sub(rf"{re.escape(str(store))}[^\s'\",;:]*", "the store", text)


def about_others(names: Iterable[str]) -> str | None:
    """One of these tables that is computed from the rows of other tenants; None if none is."""
    derived = sorted(DERIVED.keys() & set(names))

    def reveals(name: str) -> bool:
        return any(table.about_others and not table.alone for table in in_order([name]))

    return next((name for name in derived if reveals(name)), None)


def check(statement: Statement, tenant: str, own: DuckDBNames) -> None:
    """QuestionError if the answer would reveal other tenants."""
    if statement.explained:
        raise QuestionError("EXPLAIN is refused here: a plan reveals other tenants' rows")
    if table := about_others(statement.tables):
        raise QuestionError(f"{table} covers other tenants, and this page serves only {tenant}")
    strangers = [
        *(statement.tables - _TABLES - (statement.queries - own.views)),
        # A name with a schema is never that of a WITH clause.
        *(statement.qualified - _QUALIFIED),
        *(statement.functions & (own.functions | _SETTINGS) - _TABLE_FUNCTIONS),
        *(statement.shown - _SHOWN),
    ]
    if strangers:
        raise QuestionError(
            f"{min(strangers)} is not among the tables of {tenant}; see SHOW TABLES"
        )


def blanked(select: str, columns: Sequence[str], cgroups: Sequence[int]) -> str:
    """A SELECT with NULL in every column of a row that is not of these cgroups."""
    own = f"cgroup_id IN ({', '.join(map(str, cgroups))})"
    shown = ", ".join(f"CASE WHEN own THEN {name} END AS {name}" for name in columns)
    return f"SELECT {shown} FROM (SELECT *, {own} AS own FROM ({select}))"
