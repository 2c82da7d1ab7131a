"""A finding: its victim, its culprit, its cost and its evidence."""

from dataclasses import asdict, dataclass
from typing import Any, Final

REPORTED: Final = 0.05  # Smallest share that is reported.


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that costs a tenant time or memory."""

    kind: str
    victim: str
    culprit: str | None  # None if no tenant is the cause.
    share: float  # Of the base, from 0 to 1.
    confidence: float  # From 0 to 1.
    title: str
    evidence: tuple[str, ...]
    next: str  # The command that shows the same number, and more.
    base: str  # What the share is a share of.
    cost_ns: float = 0.0  # Time that the victim lost; 0 where it is not time that it lost.
    lasts: bool = False  # It does not end by itself: all work of the victim waits for it.
    nodes: tuple[str, ...] = ()  # Where it is so; empty where a single node is in sight.

    @property
    def rank(self) -> float:
        """What findings of one kind are ordered by."""
        return self.cost_ns * self.confidence

    def as_dict(self) -> dict[str, Any]:
        """By name; with nodes only where there are several."""
        known = asdict(self)
        return known if self.nodes else {k: v for k, v in known.items() if k != "nodes"}


@dataclass(frozen=True, slots=True)
class Unsampled:
    """A tenant beside another on a GPU, with too few samples to say whether it is slowed."""

    victim: str
    culprit: str
    title: str
    overlap_ns: int
    whole: str | None = None  # What the whole recording says, if the window is a part of it.


@dataclass(frozen=True, slots=True)
class Maybe:
    """Something that may be so: there is too little to be sure."""

    victim: str
    title: str
    next: str


def percent(part: float) -> str:
    """``37 %``."""
    return f"{100 * part:.3g} %"


def milliseconds(ns: float) -> str:
    """``12.3 ms``; seconds from one on."""
    return f"{ns / 1e9:.3g} s" if abs(ns) >= 0.9995e9 else f"{ns / 1e6:.3g} ms"
