"""Who slows whom in a report: a matrix of few tenants, a list of what is most sure among many."""

from collections.abc import Callable
from typing import Any, Final

from cotenant.views.export.html import Html, element, join

_FEW: Final = 6  # Tenants that fit into a matrix.
_LISTED: Final = 20
_WORDS: Final = {"evidence": "", "maybe": " maybe", "none": " no evidence"}
_SURE: Final = tuple(_WORDS)

Pair = dict[str, Any]
Who = Callable[[str], Html]


def slowdowns(pairs: list[Pair], who: Who) -> Html | None:
    """The pairs as a table; None if there are none. ``who`` makes the cell of a tenant."""
    names = sorted({name for pair in pairs for name in (pair["victim"], pair["aggressor"])})
    if not names:
        return None
    return _matrix(pairs, names, who) if len(names) <= _FEW else _list(pairs, who)


def _matrix(pairs: list[Pair], names: list[str], who: Who) -> Html:
    known = {(pair["victim"], pair["aggressor"]): pair for pair in pairs}
    head = [element("th", "slowed, by:"), *(element("th", name) for name in names)]
    rows = [
        element("tr", who(victim), *(_cell(known.get((victim, other))) for other in names))
        for victim in names
    ]
    return element("table", element("tr", *head), *rows)


def _list(pairs: list[Pair], who: Who) -> Html:
    told = [pair for pair in pairs if pair["slowdown"] and pair["evidence"] != "none"]
    told.sort(key=lambda pair: (_SURE.index(pair["evidence"]), -pair["slowdown"]))
    if not told:
        return element("p", f"No evidence in any of {len(pairs)} pairs of tenants.")
    head = [element("th", name) for name in ("slowed", "by", "times as long")]
    rows = [
        element("tr", who(pair["victim"]), who(pair["aggressor"]), _cell(pair))
        for pair in told[:_LISTED]
    ]
    rest = len(told) - _LISTED
    more = [element("p", f"and {rest} more pairs")] if rest > 0 else []
    return join([element("table", element("tr", *head), *rows), *more])


def _cell(row: Pair | None) -> Html:
    if row is None:
        return element("td", "")
    if not row["slowdown"]:
        return element("td", "?", class_="none")
    heat = min(42, 12 + max(0, (row["slowdown"] - 1) * 40))
    said = f"{row['slowdown']:.2f}x{_WORDS.get(row['evidence'], '')}"
    return element("td", said, class_=row["evidence"], style=f"--heat: {heat:.0f}%")
