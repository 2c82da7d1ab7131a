"""Columns of an answer in the units that people think in, by what their names say.

``_at_ns`` is a moment, ``_ns`` a duration, ``bytes`` a size, ``_s_bytes`` a rate; ``share`` and
``quality`` are parts of a whole. In a table the unit stands with the value, so the name drops it.
"""

from collections.abc import Sequence
from typing import Any, Final

from cotenant.views import text

_WHO: Final = frozenset({"tenant", "victim", "aggressor", "other"})
_PARTS: Final = frozenset({"share", "quality", "rises"})


def heading(name: str) -> str:
    """The column's name without its unit."""
    for suffix in ("_at_ns", "_ns", "_s_bytes", "_bytes"):
        if name.endswith(suffix) and len(name) > len(suffix):
            return name.removesuffix(suffix)
    return name


def shown(name: str, value: Any) -> Any:
    """The value as text with its unit; as it is, where the name says none."""
    if value is None or isinstance(value, str | bool | list | dict):
        return value
    if name.endswith("_at_ns") or name == "timestamp_ns":
        return f"{text.moment(value)}.{value // 1_000_000 % 1_000:03d}"
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


def table(names: Sequence[str], columns: Sequence[Sequence[Any]], width: int) -> list[str]:
    """Lines of a table with every value in its unit, numbers to the right."""
    cells = [[shown(n, v) for v in column] for n, column in zip(names, columns, strict=True)]
    right = frozenset(heading(n) for n in names if has_unit(n) and not n.endswith("_at_ns"))
    heads = [heading(name) for name in names]
    return text.table(heads, zip(*cells, strict=True), width, _WHO, right)
