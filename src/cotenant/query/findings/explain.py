"""Findings over all tenants, the one that costs its victim most first.

Each kind of finding is a module with ``NEEDS``, the tables it looks at, and ``find(ask)``. A
culprit is named only where the victim's loss and the culprit's doing were tested against each
other in time, or where the kernel recorded the one as the cause of the other.
"""

from dataclasses import dataclass
from typing import Final

from cotenant.query.derived.registry import Ask, with_sources
from cotenant.query.engine.answer import Span, Standing
from cotenant.query.engine.session import Session
from cotenant.query.findings import (
    disks,
    hangs,
    leaks,
    links,
    neighbours,
    starts,
    starved,
    stragglers,
)
from cotenant.query.findings.finding import REPORTED, Finding
from cotenant.schema import TABLES

MOST_ROWS: Final = 5_000_000
KINDS: Final = (hangs, neighbours, stragglers, starved, disks, links, leaks, starts)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Ranked findings, of which time, and how complete what they rest on is."""

    findings: tuple[Finding, ...]
    standing: Standing
    tenants: int  # Who did anything that was recorded.
    unknown: tuple[str, ...]  # Tables that were not recorded at all.

    @property
    def span(self) -> Span | None:
        """The time that was looked at."""
        return self.standing.span


def _ask(session: Session) -> Ask:
    return lambda sql: session.ask(sql, rows=MOST_ROWS).table


def explain(session: Session, tenants: frozenset[str] | None = None) -> Explanation:
    """What is wrong in the session's window; with ``tenants``, only what those suffer from.

    The session sees every tenant: a victim's culprit is mostly another.
    """
    ask = _ask(session)
    findings: list[Finding] = []
    looked_at: set[str] = set()
    for kind in KINDS:
        looked_at |= with_sources(kind.NEEDS) & set(TABLES)
        findings += [f for f in kind.find(ask) if f.share >= REPORTED]
    if tenants is not None:
        findings = [f for f in findings if tenants.intersection(f.victim.split(", "))]
    findings.sort(key=lambda f: (-f.rank, f.victim, f.kind))
    names = " UNION ALL ".join(
        f"SELECT cgroup_id FROM {t}" for t in sorted(looked_at) if t.endswith("_events")
    )
    counted = session.ask(
        f"SELECT count(DISTINCT tenant) AS tenants FROM containers "
        f"WHERE cgroup_id IN ({names or 'SELECT NULL'})"
    )
    unknown = tuple(t for t in sorted(looked_at) if t.endswith("_events") and not _any(session, t))
    return Explanation(tuple(findings), counted.standing, counted.rows()[0]["tenants"], unknown)


def _any(session: Session, table: str) -> bool:
    return any(segment.table == table for segment in session.segments)
