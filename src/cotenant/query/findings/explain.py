"""Findings over all tenants, the costliest for its victim first.

What a finding costs is time of the victim's work: no more counts than the time in which the victim
had GPU work at all, so that a process with three launches does not come before a trainer.

Each kind of finding is a module with ``NEEDS``, the tables it reads, ``NODES``, which nodes it must
see together, and ``find(ask)``. Of a kind with ``ONCE`` only the costliest finding for each victim
is told. A culprit is named only where the victim's loss coincides in time with the culprit's
activity by a test, or where the kernel recorded the cause itself.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from cotenant.query.derived.registry import Ask, with_sources
from cotenant.query.engine.answer import Answer, Interval, Standing
from cotenant.query.engine.cuts import Cut, Spread
from cotenant.query.engine.session import Session
from cotenant.query.engine.united import united
from cotenant.query.findings import (
    disks,
    hangs,
    held_forks,
    leaks,
    links,
    neighbours,
    starts,
    starved,
    stragglers,
)
from cotenant.query.findings.finding import REPORTED, Finding, Maybe, Unsampled
from cotenant.schema import TABLES

MOST_ROWS: Final = 5_000_000
KINDS: Final = (hangs, neighbours, stragglers, starved, disks, links, leaks, starts, held_forks)
# The stored tables that findings are made from: what they lack, findings lack.
LOOKED_AT: Final = frozenset(t for k in KINDS for t in with_sources(k.NEEDS) & set(TABLES))
_EVENTS: Final = tuple(sorted(t for t in LOOKED_AT if t.endswith("_events")))
_LITTLE: Final = 0.005  # Of the time that is looked at: what costs less is not told.

# How long each tenant was on a GPU, as far as that is known, or at its collectives: never how long
# it had work in flight, which is an upper bound.
_WORK: Final = """
with spent as (
    select tenant, sum(coalesce(gpu_time_ns, gpu_time_low_ns)) as gpu_time_ns
    from gpu_use
    group by tenant
),
slots as (
    select distinct c.tenant, n.timestamp_ns // 100000000 as slot
    from nccl_events n
    join containers c using (cgroup_id)
)
select tenant, max(work_ns)::double as work_ns
from (
    select tenant, sum(gpu_time_ns) as work_ns from spent group by tenant
    union all
    select tenant, count(distinct slot) * 100000000 from slots group by tenant
)
group by tenant
"""
_WORK_CUT: Final = Cut(Spread.EACH, ("spent", "slots"))

_NODES: Final = """
with places as (select distinct tenant, node from containers)
select tenant, list(distinct node) as nodes from places group by tenant
"""
_NODES_CUT: Final = Cut(Spread.EACH, ("places",))
_SEEN_CUT: Final = Cut(Spread.EACH, ("seen",))

# Puts a statement, cut there where there are many sessions, to all nodes.
AskAll = Callable[[str, Cut], Answer]


@dataclass(frozen=True, slots=True)
class FoundHere:
    """What the kinds found, by module, and what may be so, on the nodes of one session."""

    findings: Mapping[str, tuple[Finding, ...]]
    maybes: tuple[tuple[float, Maybe], ...] = ()  # Each with what it is ranked by.
    unsampled: tuple[Unsampled, ...] = ()
    standing: Standing | None = None  # Of what is looked at; told once for each node.


@dataclass(frozen=True, slots=True)
class Explanation:
    """Ranked findings, the interval they cover, and how complete its rows are."""

    findings: tuple[Finding, ...]
    standing: Standing
    tenants: int  # How many have any event.
    unknown: tuple[str, ...]  # Tables that were not recorded at all.
    maybes: tuple[Maybe, ...] = ()
    unsampled: tuple[Unsampled, ...] = ()

    @property
    def interval(self) -> Interval | None:
        """The interval that the findings cover."""
        return self.standing.interval


def _ask(session: Session) -> Ask:
    return lambda sql: session.ask(sql, rows=MOST_ROWS).table


def found(session: Session, spread: Spread | None = None) -> FoundHere:
    """What is found on the nodes of a session; with ``spread``, by kinds that need just that."""
    ask = _ask(session)
    kinds = [kind for kind in KINDS if spread in (None, kind.NODES)]
    findings = {k.__name__: tuple(f for f in k.find(ask) if f.share >= REPORTED) for k in kinds}
    maybes = tuple(neighbours.maybe(ask)) if neighbours in kinds else ()
    few = tuple(neighbours.unsampled(ask)) if neighbours in kinds else ()
    once = spread in (None, Spread.EACH)
    return FoundHere(findings, maybes, few, session.standing(LOOKED_AT) if once else None)


def explain(session: Session, tenants: frozenset[str] | None = None) -> Explanation:
    """Findings in the session's window; with ``tenants``, only those with such a victim.

    The session must see every tenant: the culprit is usually another one.
    """

    def ask(sql: str, _: Cut) -> Answer:
        return session.ask(sql, rows=MOST_ROWS)

    recorded = {segment.table for segment in session.segments}
    return concluded([found(session)], ask, recorded, tenants)


def with_the_whole(found: Explanation, whole: Session) -> Explanation:
    """What a window has too few samples for, with what the whole recording says."""
    ask = _ask(whole)
    pairs = (replace(p, whole=neighbours.told_by_the_whole(ask, p)) for p in found.unsampled)
    return replace(found, unsampled=tuple(pairs))


def concluded(
    parts: Iterable[FoundHere],
    ask: AskAll,
    recorded: set[str],
    tenants: frozenset[str] | None = None,
) -> Explanation:
    """What was found on some nodes each, ranked; ``recorded`` are the tables with any segment."""
    parts = list(parts)
    told = (_told(kind.__name__, parts, once=hasattr(kind, "ONCE")) for kind in KINDS)
    findings = [finding for of_kind in told for finding in of_kind]
    unsure = [maybe for part in parts for maybe in part.maybes]
    maybes = [maybe for _, maybe in sorted(unsure, key=lambda m: (-m[0], m[1].victim, m[1].title))]
    few = [pair for part in parts for pair in part.unsampled]
    if tenants is not None:
        findings = [f for f in findings if tenants.intersection(f.victim.split(", "))]
        maybes = [maybe for maybe in maybes if maybe.victim in tenants]
        few = [pair for pair in few if pair.victim in tenants]
    names = " UNION ALL ".join(f"SELECT cgroup_id FROM {table}" for table in _EVENTS)
    counted = ask(
        "WITH seen AS (SELECT DISTINCT tenant FROM containers "
        f"WHERE cgroup_id IN ({names})) SELECT count(DISTINCT tenant) AS tenants FROM seen",
        _SEEN_CUT,
    )
    ranked = _ranked(findings, ask, counted.standing.interval)
    return Explanation(
        findings=_placed(ranked, ask),
        standing=_standing(parts, counted.standing),
        tenants=counted.rows()[0]["tenants"],
        unknown=tuple(table for table in _EVENTS if table not in recorded),
        maybes=tuple(maybes),
        unsampled=tuple(sorted(few, key=lambda pair: -pair.overlap_ns)),
    )


def _standing(parts: Iterable[FoundHere], events: Standing) -> Standing:
    """What the tables lack that were looked at, in the time of which there are events."""
    lacking = united([part.standing for part in parts if part.standing is not None], events.sql)
    return replace(lacking, interval=events.interval)


def _told(kind: str, parts: Iterable[FoundHere], *, once: bool) -> list[Finding]:
    """The findings of a kind; the costliest for each victim, if more would say the same again."""
    findings = [finding for part in parts for finding in part.findings.get(kind, ())]
    if not once:
        return findings
    worst: dict[tuple[str, str], Finding] = {}
    for finding in sorted(findings, key=lambda f: (-f.cost_ns, f.title, f.nodes, f.evidence)):
        worst.setdefault((finding.kind, finding.victim), finding)
    return list(worst.values())


def _placed(findings: tuple[Finding, ...], ask: AskAll) -> tuple[Finding, ...]:
    """The findings with their nodes: the victim's, where they do not tell; none if there is one."""
    rows = ask(_NODES, _NODES_CUT).rows() if findings else []
    of_tenant = {row["tenant"]: row["nodes"] for row in rows}
    several = len({node for nodes in of_tenant.values() for node in nodes}) > 1

    def nodes(finding: Finding) -> tuple[str, ...]:
        victims = finding.victim.split(", ")
        theirs = {node for victim in victims for node in of_tenant.get(victim, ())}
        return (finding.nodes or tuple(sorted(theirs))) if several else ()

    return tuple(replace(finding, nodes=nodes(finding)) for finding in findings)


def _ranked(findings: list[Finding], ask: AskAll, interval: Interval | None) -> tuple[Finding, ...]:
    """The costliest first, in time of work that matters."""
    rows = ask(_WORK, _WORK_CUT).rows() if findings else []
    work = {row["tenant"]: row["work_ns"] for row in rows}
    looked_at = interval.end_ns - interval.start_ns if interval else 0

    def matters(finding: Finding) -> float:
        most = max((work.get(victim, 0.0) for victim in finding.victim.split(", ")), default=0.0)
        known = bool(work) and not finding.lasts
        return min(finding.cost_ns, most) if known else finding.cost_ns

    told = [f for f in findings if not f.cost_ns or f.cost_ns >= _LITTLE * looked_at]
    told.sort(key=lambda f: (f.victim, f.kind, f.title, f.nodes))
    told.sort(key=lambda f: (-matters(f) * f.confidence, -f.rank))
    return tuple(told)
