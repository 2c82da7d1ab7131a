"""Columns of an answer in the units that people think in, by what their names say.

``_at_ns`` is a moment, ``_ns`` a duration, ``bytes`` a size, ``_s_bytes`` a rate; ``share`` and
``quality`` are parts of a whole. In a table the unit stands with the value, so the name drops it.
"""

from collections.abc import Sequence
from typing import Any, Final

from cotenant.views import tables, text
from cotenant.views.moments import moment, zone
from cotenant.views.tables import Layout

_WHO: Final = frozenset({"tenant", "victim", "aggressor", "other", "neighbour", "thief"})
# Where it was and how it was found, not what it cost: last, as it is what may not fit.
_LAST: Final = frozenset(
    {"node", "pid", "tid", "comm", "gpu", "comm_hash", "build_id", "device"}
    | {f"image{which}" for which in ("_a", "_b", "_before", "_after")}
    | {"ci_low", "ci_high", "p", "samples", "window_from_at_ns", "window_to_at_ns"}
)
_PARTS: Final = frozenset({"share", "quality", "rises"})
_UNITS: Final = ("_at_ns", "_ns", "_s_bytes", "_bytes")


def heading(name: str) -> str:
    """The column's name without its unit."""
    for suffix in _UNITS:
        if name.endswith(suffix) and len(name) > len(suffix):
            return name.removesuffix(suffix)
    return name


def _headings(names: Sequence[str]) -> list[str]:
    """Every column's heading; where two would be one, the unit stays."""
    bare = [heading(name) for name in names]
    return [
        name.removesuffix("_ns") if bare.count(head) > 1 else head
        for name, head in zip(names, bare, strict=True)
    ]


def is_moment(name: str) -> bool:
    """Whether the column holds moments."""
    return name.endswith("_at_ns") or name == "timestamp_ns"


def shown(name: str, value: Any) -> Any:
    """The value as text with its unit; as it is, where the name says none."""
    if value is None or isinstance(value, str | bool | list | dict):
        return value
    if is_moment(name):
        return f"{moment(value)}.{value // 1_000_000 % 1_000:03d}"
    if name.endswith("_ns"):
        return text.duration(float(value))
    if name.endswith("_s_bytes"):
        return f"{text.size(float(value))}/s"
    if name == "bytes" or name.endswith("_bytes"):
        return text.size(float(value))
    if name in _PARTS:
        return f"{100 * float(value):.3g} %"
    if name.endswith("_per_s"):
        return f"{float(value):,.4g}"
    return value


def has_unit(name: str) -> bool:
    """Whether values of this column are shown with a unit."""
    return heading(name) != name or name in _PARTS or name in ("bytes", "timestamp_ns")


def table(names: Sequence[str], columns: Sequence[Sequence[Any]], layout: Layout) -> list[str]:
    """Lines of a table with every value in its unit: who, what it cost, and where that was."""
    order = sorted(range(len(names)), key=lambda i: _rank(names[i]))
    names, columns = [names[i] for i in order], [columns[i] for i in order]
    cells = [[shown(n, v) for v in column] for n, column in zip(names, columns, strict=True)]
    heads = [
        _zoned(head, column) if is_moment(name) else head
        for name, head, column in zip(names, _headings(names), columns, strict=True)
    ]
    right = frozenset(h for n, h in zip(names, heads, strict=True) if has_unit(n))
    return tables.table(heads, zip(*cells, strict=True), layout, _WHO, right)


def _rank(name: str) -> int:
    return 0 if name in _WHO else 2 if name in _LAST else 1


def _zoned(head: str, moments: Sequence[int | None]) -> str:
    """The heading with the zone of the moments below it."""
    known = [ns for ns in moments if ns is not None]
    return f"{head} ({zone(max(known))})" if known else head
