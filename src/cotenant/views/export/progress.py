"""How far a long export is: a line on a terminal, nothing anywhere else."""

import sys
import time
from typing import Final, Self

_EVERY_S: Final = 0.2


class ExportProgress:
    """Counts rows, and shows them on stderr if somebody is watching."""

    def __init__(self) -> None:
        self.rows = 0
        self._watched = sys.stderr.isatty()
        self._shown_at = 0.0

    def add(self, rows: int, what: str, expected: int) -> None:
        """So many more rows of this are done, of about so many."""
        self.rows += rows
        now = time.monotonic()
        if self._watched and now - self._shown_at >= _EVERY_S:
            self._shown_at = now
            part = f" of about {expected:,}" if expected > self.rows else ""
            sys.stderr.write(f"\r\x1b[K{what}: {self.rows:,}{part} rows")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._watched and self._shown_at:
            sys.stderr.write("\r\x1b[K")
