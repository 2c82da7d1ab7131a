"""Which operations a statement reads, as far as the WHERE of each SELECT names them.

    select count(*) from cuda_events where op in ('launch', 'graph_launch')

reads launches, whatever is missing of other calls. A statement that says nothing reads all.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import duckdb

from cotenant.query.derived.registry import DERIVED, with_sources
from cotenant.query.engine.statement import Operations, tree_of
from cotenant.schema.holes import WITH_OPERATIONS


def operations_of(tree: Any) -> Operations:
    """The operations of events that a parse tree reads; None if it may be any."""
    found: set[str] = set()
    for node in _selects(tree):
        tables = list(_tables(node.get("from_table")))
        names = {table["table_name"].lower() for table in tables} & WITH_OPERATIONS
        if not names:
            continue
        alone = len(tables) == 1 or sum(t["table_name"].endswith("_events") for t in tables) == 1
        aliases = {(t["alias"] or t["table_name"]).lower() for t in tables if _has_op(t)}
        chosen = _chosen(node.get("where_clause"), aliases, alone=alone)
        if chosen is None or len(aliases) > 1:
            return None
        found |= chosen
    return frozenset(found)


def operations_behind(named: Iterable[str], own: Operations) -> Operations:
    """The same for a statement and the derived tables that it names."""
    found = own
    for name in with_sources(named) & DERIVED.keys():
        more = _of_derived(name)
        found = None if found is None or more is None else found | more
    return found


@cache
def _of_derived(name: str) -> Operations:
    table = DERIVED[name]
    if WITH_OPERATIONS.isdisjoint(table.sources):
        return frozenset()
    if table.sql is None:
        return table.operations
    with duckdb.connect() as connection:
        return operations_of(tree_of(connection, table.sql))


def _has_op(table: dict[str, Any]) -> bool:
    return table["table_name"].lower() in WITH_OPERATIONS


def _selects(tree: Any) -> Iterator[dict[str, Any]]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if node.get("type") == "SELECT_NODE":
                yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def _tables(source: Any) -> Iterator[dict[str, Any]]:
    """The tables that a FROM joins; those of its subqueries are theirs."""
    if not isinstance(source, dict):
        return
    if source.get("type") == "BASE_TABLE":
        yield source
    elif source.get("type") == "JOIN":
        yield from _tables(source.get("left"))
        yield from _tables(source.get("right"))


def _chosen(where: Any, aliases: set[str], *, alone: bool) -> Operations:
    """The operations that a condition allows."""
    if not isinstance(where, dict):
        return None
    if where.get("type") == "CONJUNCTION_AND":
        parts = [_chosen(part, aliases, alone=alone) for part in where.get("children", ())]
        named = [part for part in parts if part is not None]
        return frozenset.intersection(*named) if named else None
    column, values = None, []
    if where.get("type") == "COMPARE_EQUAL":
        column, values = where.get("left"), [where.get("right")]
    elif where.get("type") == "COMPARE_IN":
        column, *values = where.get("children", ())
    path = [str(name).lower() for name in (column or {}).get("column_names", ())]
    if path[-1:] != ["op"] or (path[:-1] and path[0] not in aliases) or not (path[:-1] or alone):
        return None
    words = [_text(value) for value in values]
    return None if None in words else frozenset(str(word) for word in words)


def _text(value: Any) -> str | None:
    """The text of a constant; None if it is none."""
    literal = value.get("literal") if isinstance(value, dict) else None
    return str(literal["text"]) if literal and literal.get("kind") == "STRING" else None
