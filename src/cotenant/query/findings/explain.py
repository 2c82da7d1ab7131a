"""Findings over all tenants, the costliest for its victim first.

Each kind of finding is a module with ``NEEDS``, the tables it reads, and ``find(ask)``. A culprit
is named only where the victim's loss coincides in time with the culprit's activity by a test, or
where the kernel recorded the cause itself.
"""

from dataclasses import dataclass
from typing import Final

from cotenant.query.derived.registry import Ask, with_sources
from cotenant.query.engine.answer import Interval, Standing
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
    """Ranked findings, the interval they cover, and how complete its rows are."""

    findings: tuple[Finding, ...]
    standing: Standing
    tenants: int  # How many have any event.
    unknown: tuple[str, ...]  # Tables that were not recorded at all.

    @property
    def interval(self) -> Interval | None:
        """The interval that the findings cover."""
        return self.standing.interval


def _ask(session: Session) -> Ask:
    return lambda sql: session.ask(sql, rows=MOST_ROWS).table


def explain(session: Session, tenants: frozenset[str] | None = None) -> Explanation:
    """Findings in the session's window; with ``tenants``, only those with such a victim.

    The session must see every tenant: the culprit is usually another one.
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
