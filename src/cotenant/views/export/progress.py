"""Progress of a long export: a line on a terminal, nothing elsewhere."""

import sys
import time
from typing import Final, Self

from cotenant.views.status_line import show

_EVERY_S: Final = 0.2


class ExportProgress:
    """Counts rows, and shows the count on stderr if that is a terminal."""

    def __init__(self) -> None:
        self.rows = 0
        self._watched = sys.stderr.isatty()
        self._began = time.monotonic()
        self._shown_at = 0.0

    def add(self, rows: int, what: str, expected: int) -> None:
        """Add rows that are done, and show the count against the expected total."""
        self.rows += rows
        now = time.monotonic()
        if self._watched and now - self._shown_at >= _EVERY_S:
            self._shown_at = now
            show(f"{what}: {self._words(expected)}")

    def _words(self, expected: int) -> str:
        if expected <= self.rows:
            return f"{self.rows:,} rows"
        left = (time.monotonic() - self._began) * (expected - self.rows) / max(self.rows, 1)
        share = 100 * self.rows / expected
        return f"{self.rows:,} of about {expected:,} rows, {share:.0f} %, about {left:.0f} s to go"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._watched and self._shown_at:
            show()
