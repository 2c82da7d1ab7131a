"""What axe-core finds wrong with a page, however it is shown."""

from collections.abc import Iterator
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT

_WIDTHS = (1440, 390)
_GRAVE = ("serious", "critical")
THEMES = ("light", "dark")


def faults(page: Any) -> list[tuple[Any, ...]]:
    """What it calls serious or critical: rule, and where."""
    page.evaluate(AXE_SCRIPT)
    found = page.evaluate("() => axe.run({resultTypes: ['violations']})")["violations"]
    return [
        (one["id"], node["html"][:150], node.get("failureSummary"))
        for one in found
        if one["impact"] in _GRAVE
        for node in one["nodes"]
    ]


def faults_at_any_width(page: Any) -> Iterator[tuple[Any, ...]]:
    """On a laptop and on a phone."""
    for width in _WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for fault in faults(page):
            yield width, *fault


def faults_in_any_theme(page: Any) -> list[tuple[Any, ...]]:
    """In light and dark, with the page's own switch."""
    found = []
    for theme in THEMES:
        found += [(theme, *fault) for fault in faults_at_any_width(page)]
        page.click("#theme")
    return found
