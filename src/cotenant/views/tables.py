"""Tables that fit the screen: what matters stays, long texts are elided, the rest is named."""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from cotenant.views.text import cell

PLAIN_WIDTH: Final = 80
_GAP: Final = "  "
_NARROWEST: Final = 8  # Below this an elided text says nothing.
_WORD: Final = re.compile(r"[^_ ]*[_ ]*")
_NARROWEST_NAME: Final = 14  # Who it is about must stay told apart.


def width_of_output() -> int:
    """How wide prose may be: as the terminal; where there is none, what fits everywhere."""
    return _width() or PLAIN_WIDTH


def _width() -> int | None:
    """``COLUMNS``, else the terminal's width; None where there is no terminal."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError, AttributeError):
        return None


@dataclass(frozen=True, slots=True)
class Layout:
    """How a table is laid out; ``width`` None keeps every value whole, as in a pipe."""

    width: int | None = None
    vertical: bool = False
    way_out: str = ""  # The option that shows what does not fit.

    @classmethod
    def of_output(
        cls, *, wide: bool = False, vertical: bool = False, way_out: str = ""
    ) -> "Layout":
        """What suits stdout."""
        return cls(None if wide else _width(), vertical, way_out)


@dataclass(frozen=True, slots=True)
class _TextColumn:
    """A column as text; its heading may take several lines."""

    heading: tuple[str, ...]
    cells: list[str]
    right: bool
    least_cell: int  # Narrower no cell can be shown.
    width: int = 0

    @property
    def widest(self) -> int:
        return max([0, *map(len, self.cells)])

    @property
    def least(self) -> int:
        return max(self.least_cell, *map(len, self.heading))


def table(
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    layout: Layout,
    who: frozenset[str] = frozenset(),
    right: frozenset[str] = frozenset(),
) -> list[str]:
    """Lines of a table: numbers right, texts left.

    Columns named in ``who`` are elided last, those in ``right`` hold numbers with units. What does
    not fit even so is left out from the right, and the last line says so.
    """
    rows = [list(row) for row in rows]
    heads = [_encodable(cell(name)) for name in names]
    columns = [
        _column(head, [row[i] for row in rows], named=name in who, right=name in right)
        for i, (name, head) in enumerate(zip(names, heads, strict=True))
    ]
    if layout.vertical:
        return _vertical(heads, columns, len(rows))
    shown = _fitted(columns, layout.width)
    lines = [*_headings(shown), _GAP.join("-" * column.width for column in shown)]
    lines += [_line(shown, [column.cells[i] for column in shown]) for i in range(len(rows))]
    if len(shown) < len(columns):
        lines.append(_left_out(heads[len(shown) :], layout))
    return lines


def _column(head: str, values: list[Any], *, named: bool, right: bool) -> _TextColumn:
    number = right or _numeric(values)
    cells = [_encodable(cell(value)) for value in values]
    widest = max([0, *map(len, cells)])
    least = widest if number else min(widest, _NARROWEST_NAME if named else _NARROWEST)
    return _TextColumn((head,), cells, number, least, max(widest, len(head)))


def _fitted(columns: list[_TextColumn], width: int | None) -> list[_TextColumn]:
    """As many columns as fit, from the left, each as wide as it can be."""
    if width is None or _total(columns) <= width:
        return columns
    columns = [_broken(column) for column in columns]
    while len(columns) > 1 and sum(c.least for c in columns) + _gaps(columns) > width:
        columns = columns[:-1]
    while _total(columns) > width:
        elastic = (i for i, column in enumerate(columns) if column.width > column.least)
        widest = max(elastic, key=lambda i: columns[i].width, default=0)
        columns[widest] = replace(columns[widest], width=columns[widest].width - 1)
    return columns


def _broken(column: _TextColumn) -> _TextColumn:
    """The column with its heading broken at underscores, where that makes it narrower."""
    lines = [""]
    for word in filter(None, _WORD.findall(column.heading[0])):
        if lines[-1] and len((lines[-1] + word).rstrip()) > max(column.widest, _NARROWEST):
            lines.append("")
        lines[-1] += word
    lines = [line.rstrip() for line in lines]
    return replace(column, heading=tuple(lines), width=max(column.widest, *map(len, lines)))


def _total(columns: list[_TextColumn]) -> int:
    return sum(column.width for column in columns) + _gaps(columns)


def _gaps(columns: list[_TextColumn]) -> int:
    return len(_GAP) * (len(columns) - 1)


def _headings(columns: list[_TextColumn]) -> list[str]:
    most = max(len(column.heading) for column in columns)
    padded = [("",) * (most - len(column.heading)) + column.heading for column in columns]
    return [_line(columns, [heads[i] for heads in padded]) for i in range(most)]


def _line(columns: list[_TextColumn], texts: Sequence[str]) -> str:
    parts = []
    for column, text in zip(columns, texts, strict=True):
        shown = elided(text, column.width)
        parts.append(shown.rjust(column.width) if column.right else shown.ljust(column.width))
    return _GAP.join(parts).rstrip()


def _left_out(heads: Sequence[str], layout: Layout) -> str:
    more = f"{len(heads)} more column" + ("s do" if len(heads) > 1 else " does")
    way = f": {layout.way_out} shows {', '.join(heads)}" if layout.way_out else ""
    line = f"({more} not fit{way})"
    return line if layout.width is None else elided(line, layout.width)


def _vertical(heads: list[str], columns: list[_TextColumn], rows: int) -> list[str]:
    """Each value on a line of its own."""
    wide = max(map(len, heads), default=0)
    lines = []
    for row in range(rows):
        lines.append(f"--- row {row + 1}")
        lines += [f"{h:<{wide}}  {c.cells[row]}" for h, c in zip(heads, columns, strict=True)]
    return lines


def elided(text: str, width: int) -> str:
    """The text cut to this width, with a mark where it was cut."""
    return text if len(text) <= width else text[: width - 1] + _encodable("…", "~")


def _encodable(text: str, otherwise: str | None = None) -> str:
    """The text as stdout can show it, so that its width is known."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        if otherwise is not None:
            return otherwise
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text


def _numeric(values: Iterable[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(
        isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in known
    )
