"""Elements of HTML; whatever is no element already is text, and can become nothing else."""

import html
from collections.abc import Iterable

from cotenant.printable import printable

_EMPTY = frozenset({"meta"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: str) -> Html:
    """An element; ``class_`` is the attribute ``class``, ``http_equiv`` is ``http-equiv``."""
    named = "".join(
        f' {name.strip("_").replace("_", "-")}="{_escaped(value)}"'
        for name, value in attributes.items()
        if value
    )
    if tag in _EMPTY:
        return Html(f"<{tag}{named}>")
    return Html(f"<{tag}{named}>{join(children)}</{tag}>")


def join(children: Iterable[str]) -> Html:
    """Elements and texts one after the other."""
    return Html("".join(c if isinstance(c, Html) else _escaped(c) for c in children))


def _escaped(text: str) -> str:
    return html.escape(printable(text))
