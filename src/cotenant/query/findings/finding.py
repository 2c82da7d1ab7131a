"""A finding: its victim, its culprit, its cost and its evidence."""

from dataclasses import dataclass
from typing import Final

REPORTED: Final = 0.05  # Smallest share that is reported.


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that costs a tenant time or memory."""

    kind: str
    victim: str
    culprit: str | None  # None if no tenant is the cause.
    share: float  # Of the victim's time, or of its memory, from 0 to 1.
    confidence: float  # From 0 to 1.
    title: str
    evidence: tuple[str, ...]
    next: str  # The command that shows more.

    @property
    def rank(self) -> float:
        """What findings are ordered by."""
        return self.share * self.confidence


def percent(part: float) -> str:
    """``37 %``."""
    return f"{100 * part:.3g} %"


def milliseconds(ns: float) -> str:
    """``12.3 ms``; seconds from one on."""
    return f"{ns / 1e9:.3g} s" if abs(ns) >= 0.9995e9 else f"{ns / 1e6:.3g} ms"
