"""A collective that some ranks have made and others have not.

NCCL queues a collective and returns, so a healthy rank is seen in its next wait for the stream. The
rank that broke is the one with fewer calls; with equal numbers, the one whose call never returned.
"""

from dataclasses import dataclass
from typing import Any, Final

from cotenant.query.derived.registry import Ask
from cotenant.query.engine.cuts import Spread
from cotenant.query.findings.finding import Finding, milliseconds

NEEDS: Final = ("calls_under_way", "collective_calls", "nccl_events", "totals")
NODES: Final = Spread.COMMUNICATORS
LONG_NS: Final = 5e9
LONGER: Final = 20  # In units of the longest call that returned.
PAUSES: Final = 3  # In units of the longest time between two calls.
SURE: Final = 0.95
UNSURE: Final = 0.5  # Something may have been missed: no more than a hint.

# A row for each rank of each communicator of which some thread has waited for long.
_SQL: Final = """
with ranked as (
    select distinct n.comm_hash, n.node, n.pid, n.rank, n.nranks, c.tenant, c.cgroup_id
    from whole.nccl_events n
    join containers c using (cgroup_id)
    where n.comm_hash is not null and n.rank is not null
),
-- The last sample of each node.
samples as (
    select node, max(timestamp_ns) as timestamp_ns
    from (
        select node, timestamp_ns from in_flight
        union all
        select node, timestamp_ns from totals
    )
    group by node
),
calls as (
    from collective_calls
    where timestamp_ns <= (select max(timestamp_ns) from samples)
),
members as (
    select
        r.comm_hash,
        r.node,
        r.pid,
        r.rank,
        r.nranks,
        any_value(r.tenant)                         as tenant,
        any_value(r.cgroup_id)                      as cgroup_id,
        max(c.timestamp_ns)                         as last_ns,
        max(c.duration_ns)                          as longest_ns,
        max(c.timestamp_ns - c.before_ns)           as pause_ns,
        arg_max(c.op, c.timestamp_ns)               as last_op,
        -- What was left out last may have been a call of this turn.
        coalesce(arg_max(c.left_out, c.timestamp_ns), '') <> '' as doubtful
    from ranked r
    left join (
        select *, lag(timestamp_ns) over (
            partition by comm_hash, node, pid, rank order by timestamp_ns
        ) as before_ns
        from calls
    ) c using (comm_hash, node, pid, rank)
    group by all
),
-- How many each has made of those that any rank has made.
turns as (
    select comm_hash, node, pid, rank, sum(turn)::bigint as turns
    from (
        select comm_hash, node, pid, rank, op, max(turn) as turn from calls group by all
    )
    group by all
),
open as (
    select
        m.comm_hash,
        m.node,
        m.pid,
        m.rank,
        arg_max(f.function, (f.comm_hash is not null, -f.began_ns)) as function,
        max(f.timestamp_ns - f.began_ns)            as age_ns,
        -- The end of a group has no communicator.
        bool_or(f.comm_hash = m.comm_hash or f.function = 'ncclGroupEnd') as inside,
        -- In a group, the call itself has returned and is a row.
        bool_or(f.comm_hash = m.comm_hash)          as unreturned
    from calls_under_way f
    join members m using (node, pid)
    where f.began_ns >= coalesce(m.last_ns, 0)
      and (f.comm_hash is null or f.comm_hash = m.comm_hash)
      and f.function not like 'ncclComm%'
    group by all
),
-- Waits by asking again and again are no calls under way.
asking as (
    select distinct t.node, t.cgroup_id, s.timestamp_ns
    from totals t
    join samples s on s.node = t.node and t.timestamp_ns > s.timestamp_ns - 2_000_000_000
    where t.function in ('cuStreamQuery', 'cuEventQuery') and t.count > 0
),
-- Those of which nothing is expected any more.
gone as (
    select distinct comm_hash
    from whole.nccl_events
    where op in ('CommDestroy', 'CommAbort', 'CommFinalize')
)
select
    m.* exclude (cgroup_id),
    coalesce(t.turns, 0) + coalesce(o.unreturned, false)::bigint as turns,
    o.function,
    o.age_ns,
    coalesce(o.inside, false)                       as inside,
    a.cgroup_id is not null                         as asks,
    if(g.comm_hash is null, a.timestamp_ns - m.last_ns, null) as asked_ns
from members m
left join turns t using (comm_hash, node, pid, rank)
left join open o using (comm_hash, node, pid, rank)
left join asking a on a.node = m.node and a.cgroup_id = m.cgroup_id
left join gone g using (comm_hash)
where m.comm_hash in (
    select comm_hash from open
    union all
    select comm_hash from members join asking using (node, cgroup_id)
)
order by m.comm_hash, m.rank, m.node, m.pid
"""


@dataclass(frozen=True, slots=True)
class _Standstill:
    """A communicator: its ranks, those that wait for others, and those that broke."""

    comm: int
    ranks: list[dict[str, Any]]
    waiting: list[dict[str, Any]]
    broken: list[dict[str, Any]]


def find(ask: Ask) -> list[Finding]:
    """Every communicator that stands still."""
    comms: dict[int, list[dict[str, Any]]] = {}
    for row in ask(_SQL).to_pylist():
        comms.setdefault(row["comm_hash"], []).append(row)
    still = [s for comm, ranks in comms.items() if (s := _standstill(comm, ranks)) is not None]
    # A rank that waits for another communicator's ranks is late because of them.
    held = {_process(rank): s.comm for s in still for rank in s.waiting if s.broken}
    return [_finding(each, held) for each in still]


def _process(rank: dict[str, Any]) -> tuple[str, int]:
    return rank["node"], rank["pid"]


def _standstill(comm: int, ranks: list[dict[str, Any]]) -> _Standstill | None:
    longest = max(rank["longest_ns"] or 0 for rank in ranks)
    stuck = [r for r in ranks if (r["age_ns"] or 0) >= max(LONG_NS, LONGER * longest)]
    most = max(rank["turns"] for rank in ranks)
    if most == 0:
        return None
    behind = [rank for rank in ranks if rank["turns"] < most]
    asking = [rank for rank in ranks if rank not in stuck and _asks_for_long(rank, longest)]
    if behind:
        waiting = [rank for rank in (*stuck, *asking) if rank["turns"] == most]
        return _Standstill(comm, ranks, waiting, behind) if waiting else None
    inside = [rank for rank in stuck if rank["inside"]]
    waiting = [rank for rank in stuck if not rank["inside"]]
    if not inside:
        return None
    if not waiting and not any(rank["asks"] for rank in ranks if rank not in inside):
        return _Standstill(comm, ranks, inside, [])
    return _Standstill(comm, ranks, waiting or [r for r in ranks if r not in inside], inside)


def _asks_for_long(rank: dict[str, Any], longest: int) -> bool:
    """Whether it asks if its work is done, for far longer than it ever was without a collective."""
    usual = max(LONG_NS, LONGER * longest, PAUSES * (rank["pause_ns"] or 0))
    return rank["function"] is None and (rank["asked_ns"] or 0) >= usual


def _finding(still: _Standstill, held: dict[tuple[str, int], int]) -> Finding:
    elsewhere = [r for r in still.broken if held.get(_process(r), still.comm) != still.comm]
    broken = [rank for rank in still.broken if rank not in elsewhere]
    lacking = (still.ranks[0]["nranks"] or 0) - len({rank["rank"] for rank in still.ranks})
    named = ", ".join(_name(rank) for rank in broken) or None
    op = next((r["last_op"] for r in still.waiting if r["last_op"]), "a collective")
    victims = ", ".join(sorted({rank["tenant"] for rank in still.waiting}))
    ages = (r["age_ns"] or r["asked_ns"] for r in (*still.waiting, *still.broken))
    age_ns = max(age or 0 for age in ages)
    evidence = [
        f"under way for {milliseconds(age_ns)}: {_doing(still.waiting)}",
        *(_missing(rank, still) for rank in still.broken),
        *(f"{_name(rank)} waits in another communicator itself" for rank in elsewhere),
    ]
    if lacking:
        evidence.append(f"{lacking} of {still.ranks[0]['nranks']} ranks are not on this host")
    return Finding(
        kind="hung collective",
        victim=victims,
        culprit=named,
        share=1.0,
        confidence=_confidence(still, broken, lacking),
        title=f"{victims} hang in {op}",
        evidence=tuple(evidence),
        next="cotenant ask under_way longer=5s",
        base="the time since the wait began",
        cost_ns=age_ns,
        lasts=True,
    )


def _confidence(still: _Standstill, broken: list[dict[str, Any]], lacking: int) -> float:
    if not broken:
        return 0.7 if lacking else UNSURE
    doubtful = any(rank["doubtful"] for rank in (*broken, *still.waiting))
    # With equal numbers, a rank that is elsewhere may be the one that has fewer.
    equal = lacking and all(rank["turns"] == still.waiting[0]["turns"] for rank in broken)
    return UNSURE if doubtful or equal else SURE


def _name(rank: dict[str, Any]) -> str:
    return f"{rank['tenant']} rank {rank['rank']}"


def _doing(ranks: list[dict[str, Any]]) -> str:
    calls = sorted({rank["function"] or "asking whether it is done" for rank in ranks})
    numbers = ", ".join(str(rank["rank"]) for rank in ranks)
    made = f"ranks {numbers} have made {ranks[0]['turns']:,} collectives"
    return f"{made} and wait in {', '.join(calls)}"


def _missing(rank: dict[str, Any], still: _Standstill) -> str:
    most = still.waiting[0]["turns"]
    if rank["inside"]:
        return f"{_name(rank)} has not returned from {rank['function']} number {rank['turns']:,}"
    is_in = f", and is in {rank['function']}" if rank["function"] else ""
    return f"{_name(rank)} has made {rank['turns']:,} of {most:,}{is_in}"
