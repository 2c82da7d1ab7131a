"""What may be asked: one statement that only reads the tables.

DuckDB's own parser decides what the text means; what is not known to be harmless is refused.
A SELECT can write (a WITH clause holds COPY or INSERT) and read any file (table functions,
and a string in place of a table), so the whole parse tree is checked, not its first word.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import duckdb

from cotenant.errors import QuestionError

ALLOWED: Final = "only reading is allowed: SELECT, WITH, FROM, VALUES, DESCRIBE, SHOW, EXPLAIN"

_QUERY_NODES: Final = frozenset(
    {"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"}
)
_TABLE_FUNCTIONS: Final = frozenset(
    {
        "duckdb_columns",
        "duckdb_functions",
        "duckdb_keywords",
        "duckdb_tables",
        "duckdb_types",
        "duckdb_views",
        "generate_series",
        "json_each",
        "json_tree",
        "pragma_table_info",
        "pragma_version",
        "range",
        "repeat",
        "repeat_row",
        "unnest",
    }
)
# They block, change the session, or reveal a segment's contents past the tenant filter.
_REFUSED_FUNCTIONS: Final = frozenset(
    {"nextval", "pg_sleep", "setval", "sleep_ms", "stats", "write_log"}
)
# Kinds of SHOW that have a query of their own below them.
_DESCRIBES: Final = frozenset({"DESCRIBE", "SUMMARY"})
Operations = frozenset[str] | None  # Of events; None is any.
_TABLE_NAME: Final = re.compile(r"\w+")
_EXPLAIN: Final = re.compile(r"\s*(explain\s+(?:analyze\s+|\(\s*format\s+\w+\s*\)\s*)?)", re.I)
_COMMENT: Final = re.compile(r"\s*(--[^\n]*(\n|$)|/\*.*?\*/)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL that may run, and what it names, in lower case."""

    sql: str
    tables: frozenset[str]
    qualified: frozenset[str] = frozenset()  # Those of them that have a schema, with it.
    queries: frozenset[str] = frozenset()  # Of its WITH clauses; these are tables to the rest.
    functions: frozenset[str] = frozenset()
    shown: frozenset[str] = frozenset()  # By SHOW, which also takes settings.
    explained: bool = False


def one_line(error: Exception) -> str:
    """DuckDB's message without its excerpt of the SQL: the error, and the hint."""
    text = str(error).partition("\nLINE ")[0]
    words = [line.strip() for line in text.splitlines() if line.strip()]
    line = "; ".join(words) or type(error).__name__
    return re.sub(r"^[A-Z][A-Za-z -]* Error: ", "", line, count=1).replace("!;", ";")


def _kind(connection: Any, sql: str) -> str:
    """DuckDB's type of the only statement in the text."""
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise QuestionError(f"cannot parse this SQL: {one_line(error)}") from error
    if not statements:
        raise QuestionError("empty SQL; try `SELECT * FROM containers`")
    if len(statements) > 1:
        raise QuestionError(f"{len(statements)} statements given; run one at a time")
    try:
        return str(statements[0].type.name)
    except ValueError as error:  # DuckDB parses statements that its Python face has no name for.
        raise QuestionError(f"this statement is refused; {ALLOWED}") from error


def _explained(connection: Any, sql: str) -> Statement:
    """An EXPLAIN, rebuilt from the checked tree: what runs is exactly what was checked."""
    while comment := _COMMENT.match(sql):
        sql = sql[comment.end() :]
    found = _EXPLAIN.match(sql)
    if found is None:
        raise QuestionError("this EXPLAIN is refused; write EXPLAIN or EXPLAIN ANALYZE")
    body = sql[found.end() :]
    tree = _tree(connection, body, _kind(connection, body))
    named = _check(tree)
    looked_at = json.dumps({"error": False, "statements": tree})
    ((plain,),) = connection.execute("SELECT json_deserialize_sql(?)", [looked_at]).fetchall()
    return replace(named, sql=f"{found[1]}{plain}", explained=True)


def _tree(connection: Any, sql: str, kind: str) -> Any:
    ((text,),) = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    try:
        tree = json.loads(text)
    except RecursionError:
        raise QuestionError("this SQL is nested too deep; write it flatter") from None
    if tree["error"]:
        if kind == "MULTI":
            raise QuestionError("PIVOT needs a list of values: PIVOT ... ON column IN ('a', 'b')")
        raise QuestionError(f"{kind} is refused; {ALLOWED}")
    return tree["statements"]


def _dicts(tree: Any) -> Iterator[dict[str, Any]]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def _check_function(name: str) -> None:
    if name not in _TABLE_FUNCTIONS:
        raise QuestionError(
            f"{name}() is refused: only the store's tables can be read; see SHOW TABLES"
        )


def _check(tree: Any) -> Statement:
    """What the tree names; QuestionError if it does more than read tables."""
    tables: set[str] = set()
    qualified: set[str] = set()
    queries: set[str] = set()
    functions: set[str] = set()
    shown: set[str] = set()
    for node in _dicts(tree):
        kind = str(node.get("type", ""))
        if kind.endswith("_NODE") and kind not in _QUERY_NODES:
            word = kind.removesuffix("_NODE").removesuffix("_QUERY")
            raise QuestionError(f"{word} is refused; {ALLOWED}")
        queries.update(str(entry["key"]).lower() for entry in with_clauses(node))
        if kind == "SHOW_REF" and node["show_type"] not in _DESCRIBES:
            shown.add(f"{node['schema_name']}{node['table_name']}".strip('"').lower())
        if kind == "TABLE_FUNCTION":
            _check_function(str(node["function"]["function_name"]).lower())
        elif kind == "BASE_TABLE":
            name = str(node["table_name"])
            if not _TABLE_NAME.fullmatch(name):
                raise QuestionError(f"{name!r} is not a table of the store; see SHOW TABLES")
            tables.add(name.lower())
            schemas = [str(node[key]) for key in ("catalog_name", "schema_name") if node[key]]
            if schemas:
                qualified.add(".".join((*schemas, name)).lower())
        elif name := str(node.get("function_name", "")).lower():
            if name in _REFUSED_FUNCTIONS:
                raise QuestionError(f"{node['function_name']}() is refused; {ALLOWED}")
            functions.add(name)
    return Statement(
        "",
        frozenset(tables),
        frozenset(qualified),
        frozenset(queries),
        frozenset(functions),
        frozenset(shown),
    )


def with_clauses(node: dict[str, Any]) -> list[dict[str, Any]]:
    """The queries of a node's WITH clause."""
    clauses = node.get("cte_map")
    return list(clauses.get("map", ())) if isinstance(clauses, dict) else []


def tree_of(connection: Any, sql: str) -> Any:
    """The parse tree of one statement that only reads."""
    (tree,) = _tree(connection, sql, _kind(connection, sql))
    return tree


def named_tables(tree: Any) -> frozenset[str]:
    """The tables without a schema, and the queries of a WITH clause, that the tree reads."""
    bases = (node for node in _dicts(tree) if node.get("type") == "BASE_TABLE")
    return frozenset(str(node["table_name"]) for node in bases if not node["schema_name"])


def read_only(connection: Any, sql: str) -> Statement:
    """The statement, if it is one and only reads."""
    kind = _kind(connection, sql)
    if kind == "EXPLAIN":
        return _explained(connection, sql)
    return replace(_check(_tree(connection, sql, kind)), sql=sql.strip().rstrip(";"))
