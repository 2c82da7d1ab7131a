"""Findings over all tenants, the costliest for its victim first.

What a finding costs is time of the victim's work: no more counts than the time in which the victim
had GPU work at all, so that a process with three launches does not come before a trainer.

Each kind of finding is a module with ``NEEDS``, the tables it reads, and ``find(ask)``. A culprit
is named only where the victim's loss coincides in time with the culprit's activity by a test, or
where the kernel recorded the cause itself.
"""

from dataclasses import dataclass, replace
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
from cotenant.query.findings.finding import REPORTED, Finding, Maybe
from cotenant.schema import TABLES

MOST_ROWS: Final = 5_000_000
KINDS: Final = (hangs, neighbours, stragglers, starved, disks, links, leaks, starts)
_LITTLE: Final = 0.005  # Of the time that is looked at: what costs less is not told.

# When each tenant had GPU work, or was at its collectives.
_WORK: Final = """
select tenant, max(work_ns)::double as work_ns
from (
    select tenant, sum(busy_ns) as work_ns from busy group by tenant
    union all
    select c.tenant, count(distinct n.timestamp_ns // 100000000) * 100000000
    from nccl_events n
    join containers c using (cgroup_id)
    group by c.tenant
)
group by tenant
"""

_NODES: Final = "select tenant, list(distinct node) as nodes from containers group by tenant"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Ranked findings, the interval they cover, and how complete its rows are."""

    findings: tuple[Finding, ...]
    standing: Standing
    tenants: int  # How many have any event.
    unknown: tuple[str, ...]  # Tables that were not recorded at all.
    maybes: tuple[Maybe, ...] = ()

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
    maybes = tuple(m for m in neighbours.maybe(ask) if tenants is None or m.victim in tenants)
    if tenants is not None:
        findings = [f for f in findings if tenants.intersection(f.victim.split(", "))]
    names = " UNION ALL ".join(
        f"SELECT cgroup_id FROM {t}" for t in sorted(looked_at) if t.endswith("_events")
    )
    counted = session.ask(
        f"SELECT count(DISTINCT tenant) AS tenants FROM containers "
        f"WHERE cgroup_id IN ({names or 'SELECT NULL'})"
    )
    unknown = tuple(t for t in sorted(looked_at) if t.endswith("_events") and not _any(session, t))
    ranked = _ranked(findings, ask, counted.standing.interval)
    number = counted.rows()[0]["tenants"]
    return Explanation(_placed(ranked, ask), counted.standing, number, unknown, maybes)


def _placed(findings: tuple[Finding, ...], ask: Ask) -> tuple[Finding, ...]:
    """The findings with their nodes: the victim's, where they do not tell; none if there is one."""
    rows = ask(_NODES).to_pylist() if findings else []
    of_tenant = {row["tenant"]: row["nodes"] for row in rows}
    several = len({node for nodes in of_tenant.values() for node in nodes}) > 1

    def nodes(finding: Finding) -> tuple[str, ...]:
        victims = finding.victim.split(", ")
        theirs = {node for victim in victims for node in of_tenant.get(victim, ())}
        return (finding.nodes or tuple(sorted(theirs))) if several else ()

    return tuple(replace(finding, nodes=nodes(finding)) for finding in findings)


def _ranked(findings: list[Finding], ask: Ask, interval: Interval | None) -> tuple[Finding, ...]:
    """The costliest first, in time of work that matters."""
    work = {row["tenant"]: row["work_ns"] for row in ask(_WORK).to_pylist()} if findings else {}
    looked_at = interval.end_ns - interval.start_ns if interval else 0

    def matters(finding: Finding) -> float:
        most = max((work.get(victim, 0.0) for victim in finding.victim.split(", ")), default=0.0)
        known = bool(work) and not finding.lasts
        return min(finding.cost_ns, most) if known else finding.cost_ns

    told = [f for f in findings if not f.cost_ns or f.cost_ns >= _LITTLE * looked_at]
    told.sort(key=lambda f: (-matters(f) * f.confidence, -f.rank, f.victim, f.kind))
    return tuple(told)


def _any(session: Session, table: str) -> bool:
    return any(segment.table == table for segment in session.segments)
