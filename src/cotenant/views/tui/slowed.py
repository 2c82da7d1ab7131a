"""Who is slowed by whom, in a line: what `interference` is sure of, and what it thinks possible."""

from typing import Any, Final

from cotenant.views import text

NOBODY: Final = "slowed by: nobody, as far as this recording tells"
_MOST: Final = 4


def slowed_words(pairs: list[dict[str, Any]]) -> str:
    """``slowed by: train by noisy 1.33x; serve by train 1.91x (maybe)``."""
    shown = [pair for pair in pairs if pair["evidence"] in ("evidence", "maybe")]
    shown = [pair for pair in shown if (pair["slowdown"] or 0) > 1]
    if not shown:
        return NOBODY
    words = [_words(pair) for pair in shown[:_MOST]]
    if len(shown) > _MOST:
        words.append(f"{len(shown) - _MOST} more")
    return f"slowed by: {'; '.join(words)}"


def _words(pair: dict[str, Any]) -> str:
    victim, aggressor = text.cell(pair["victim"]), text.cell(pair["aggressor"])
    doubt = " (maybe)" if pair["evidence"] == "maybe" else ""
    return f"{victim} by {aggressor} {pair['slowdown']:.2f}x{doubt}"
