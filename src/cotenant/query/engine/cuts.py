"""Where a statement is cut, to be put to each of many nodes.

    -- nodes: each counted
    with counted as (...), ranked as (... from counted) select ... from ranked

says that ``counted`` over all nodes is ``counted`` of each node, united. So a session of each node
computes it, and what comes after runs once, on the rows of all. With ``communicators``, the nodes
of a communicator have to be in one session. Of several such lines each is a step, which the rows of
those before it are given to.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import duckdb

from cotenant.errors import QuestionError
from cotenant.query.engine.statement import named_tables, tree_of, with_clauses

GIVEN: Final = "given"  # The schema with the rows of all nodes.


class Spread(StrEnum):
    """Which nodes a session must have in sight."""

    EACH = "each"
    COMMUNICATORS = "communicators"


@dataclass(frozen=True, slots=True)
class Cut:
    """Queries of a WITH clause that are computed node by node."""

    spread: Spread
    queries: tuple[str, ...]


def read_cut(text: str) -> Cut:
    """``each counted, named``."""
    spread, _, names = text.partition(" ")
    queries = tuple(name.strip() for name in names.split(",") if name.strip())
    if spread not in tuple(Spread) or not queries:
        raise QuestionError(f"cannot parse `nodes: {text}`; write `each QUERY` and its WITH query")
    return Cut(Spread(spread), queries)


def before_cut(sql: str, query: str, given: Collection[str] = ()) -> str:
    """What computes this WITH query of the statement, on a session that has the given ones."""
    return _rewritten(sql, f"SELECT * FROM {query}", given)


def after_cut(sql: str, given: Collection[str]) -> str:
    """The rest of the statement, where these queries are given."""
    return _rewritten(sql, None, given)


def _rewritten(sql: str, body: str | None, given: Collection[str]) -> str:
    with duckdb.connect(":memory:") as connection:
        statement = tree_of(connection, sql)
        known = {entry["key"]: entry for entry in with_clauses(statement["node"])}
        main = tree_of(connection, body) if body else statement
        main["node"]["cte_map"] = {"map": []}
        for name in given:
            read = tree_of(connection, f"SELECT * FROM {GIVEN}.{name}")
            known[name]["value"]["query_node"] = read["node"]
        main["node"]["cte_map"]["map"] = _reached(main, known)
        text = json.dumps({"error": False, "statements": [main]})
        ((plain,),) = connection.execute("SELECT json_deserialize_sql(?)", [text]).fetchall()
    return str(plain)


def _reached(main: Any, known: dict[str, Any]) -> Iterable[Any]:
    """Of the WITH queries those that are read, directly or not, in their order."""
    found: set[str] = set()
    waiting = [main]
    while waiting:
        for name in (named_tables(waiting.pop()) & known.keys()) - found:
            found.add(name)
            waiting.append(known[name]["value"]["query_node"])
    return [entry for name, entry in known.items() if name in found]
