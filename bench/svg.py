"""Small plots as SVG, without a library: bars, and lines over time."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 640, 260, 64, 36, 40
STYLE = (
    "text{font:12px sans-serif;fill:#333}.t{font-weight:bold}.g{stroke:#ddd}"
    ".b{fill:#3b6ea5}.l{fill:none;stroke:#3b6ea5;stroke-width:2}"
    ".m{stroke:#b33;stroke-dasharray:5 4}"
)


def _frame(title: str, body: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">'
        f"<style>{STYLE}</style>"
        f'<text class="t" x="{LEFT}" y="20">{escape(title)}</text>{"".join(body)}</svg>\n'
    )


def _y(value: float, most: float) -> float:
    return HEIGHT - BOTTOM - value / most * (HEIGHT - BOTTOM - TOP)


def _scale(most: float, limit: float | None) -> list[str]:
    marks = [
        f'<line class="g" x1="{LEFT}" x2="{WIDTH - 16}" y1="{_y(v, most):.1f}" '
        f'y2="{_y(v, most):.1f}"/><text x="{LEFT - 6}" y="{_y(v, most) + 4:.1f}" '
        f'text-anchor="end">{v:.4g}</text>'
        for v in (0, most / 2, most)
    ]
    if limit is not None:
        y = _y(limit, most)
        marks.append(f'<line class="m" x1="{LEFT}" x2="{WIDTH - 16}" y1="{y:.1f}" y2="{y:.1f}"/>')
    return marks


def bars(
    path: Path, title: str, values: Sequence[tuple[str, float]], limit: float | None = None
) -> None:
    """A bar per name; the dashed line is the limit to stay below."""
    most = max([value for _, value in values] + [limit or 0]) * 1.1 or 1
    step = (WIDTH - LEFT - 16) / max(len(values), 1)
    body = _scale(most, limit)
    for at, (name, value) in enumerate(values):
        x, y = LEFT + at * step + step * 0.2, _y(value, most)
        middle = f'x="{x + step * 0.3:.1f}" text-anchor="middle"'
        body.append(
            f'<rect class="b" x="{x:.1f}" y="{y:.1f}" width="{step * 0.6:.1f}" '
            f'height="{HEIGHT - BOTTOM - y:.1f}"/>'
            f'<text {middle} y="{HEIGHT - BOTTOM + 16}">{escape(name)}</text>'
            f'<text {middle} y="{y - 4:.1f}">{value:.4g}</text>'
        )
    path.write_text(_frame(title, body))


def line(
    path: Path, title: str, points: Sequence[tuple[float, float]], limit: float | None = None
) -> None:
    """A value over time."""
    most = max([y for _, y in points] + [limit or 0]) * 1.1 or 1
    last = max([x for x, _ in points], default=1) or 1
    where = " ".join(
        f"{LEFT + x / last * (WIDTH - LEFT - 16):.1f},{_y(y, most):.1f}" for x, y in points
    )
    body = [*_scale(most, limit), f'<polyline class="l" points="{where}"/>']
    body.append(f'<text x="{WIDTH - 16}" y="{HEIGHT - 8}" text-anchor="end">{last:.4g} s</text>')
    path.write_text(_frame(title, body))
