"""Answers as JSON that a browser reads without losing a digit."""

from typing import Any, Final

from cotenant.query.engine.answer import Answer
from cotenant.views import text
from cotenant.views.rows import unique

EXACT: Final = 2**53 - 1  # A browser's numbers are exact up to here.
_IDS: Final = frozenset({"cgroup_id", "kernel_cgroup_id", "peer_cgroup_id"})


def value(name: str, of: Any) -> Any:
    """A cell; ids, and numbers too large for a browser, are text."""
    of = text.plain(of)
    if isinstance(of, bool) or not isinstance(of, int):
        return of
    return str(of) if name in _IDS or abs(of) > EXACT else of


def answer(found: Answer) -> dict[str, Any]:
    """Columns, rows, the SQL behind them, and what they lack."""
    names = unique(found.table.column_names)
    columns = [
        [value(name, cell) for cell in column.to_pylist()]
        for name, column in zip(names, found.table.columns, strict=True)
    ]
    return {
        "columns": names,
        "numeric": [_is_number(str(field.type)) for field in found.table.schema],
        "rows": [list(row) for row in zip(*columns, strict=True)],
        "truncated": found.truncated,
        "sql": found.sql,
        "lacks": text.incompleteness(found.standing),
    }


def _is_number(kind: str) -> bool:
    return kind.startswith(("int", "uint", "double", "float", "decimal", "hugeint"))
