"""A connection that loses packets."""

from typing import Any, Final

from cotenant.query.derived.registry import Ask
from cotenant.query.engine.cuts import Spread
from cotenant.query.findings.finding import Finding, percent
from cotenant.query.text import shell

NEEDS: Final = ("tcp_events", "net_events")
NODES: Final = Spread.EACH
ONCE: Final = True
FEWEST: Final = 20  # Retransmits that are more than the odd one.
PER_SECOND: Final = 1.0
OF_SENT: Final = 0.005  # Of all segments; a busy link loses one now and then.
SEGMENT_BYTES: Final = 1448
COST_NS: Final = (
    20e6  # A retransmit holds its stream up for a round trip, and more after a timeout.
)
MOSTLY: Final = 0.5

_SQL: Final = """
with sent_again as (
    select
        c.tenant,
        t.node,
        t.remote_ip,
        sum(t.weight)::bigint                       as times,
        count(distinct t.timestamp_ns // 1000000000) as seconds,
        median(t.rtt_ns)                            as rtt_ns
    from tcp_events t
    join containers c using (cgroup_id)
    where t.op = 'retransmit'
    group by c.tenant, t.node, t.remote_ip
),
seen as (
    select node, (max(timestamp_ns) - min(timestamp_ns))::double as seen_ns
    from (
        select node, timestamp_ns from tcp_events
        union all
        select node, timestamp_ns from cuda_events
        union all
        select node, timestamp_ns from nccl_events
    )
    group by node
),
sent as (
    select c.tenant, e.node, sum(e.bytes * e.weight)::double as sent_bytes
    from net_events e
    join containers c using (cgroup_id)
    where e.op = 'send' and e.family in ('tcp', 'tcp6')
    group by c.tenant, e.node
)
select
    s.*,
    (sum(times) over (partition by s.tenant, s.node))::bigint as all_times,
    w.seen_ns,
    b.sent_bytes
from sent_again s
join seen w on w.node = s.node
left join sent b on b.tenant = s.tenant and b.node = s.node
qualify row_number() over (partition by s.tenant, s.node order by times desc, s.remote_ip) = 1
"""

# In seconds with retransmits and in those without, how long the tenant's collectives took.
_HELD_UP: Final = """
with bad as (
    select distinct cgroup_id, timestamp_ns // 1000000000 as second
    from tcp_events
    where op = 'retransmit'
)
select
    c.tenant,
    n.node,
    median(n.duration_ns) filter (b.second is not null) as with_ns,
    median(n.duration_ns) filter (b.second is null) as without_ns,
    count(*) filter (b.second is not null)          as with_count
from nccl_events n
join containers c using (cgroup_id)
left join bad b on b.cgroup_id = n.cgroup_id and b.second = n.timestamp_ns // 1000000000
where n.duration_ns is not null
group by c.tenant, n.node
"""


def find(ask: Ask) -> list[Finding]:
    """Every tenant that has to send too much again, for each of its nodes."""
    slower = {(row["tenant"], row["node"]): row for row in ask(_HELD_UP).to_pylist()}
    rows = ask(_SQL).to_pylist()
    found = [_finding(row, slower.get((row["tenant"], row["node"]))) for row in rows]
    return [finding for finding in found if finding is not None]


def _finding(row: dict[str, Any], slower: dict[str, Any] | None) -> Finding | None:
    seconds = max((row["seen_ns"] or 0) / 1e9, 1e-9)
    if row["all_times"] < FEWEST or row["all_times"] / seconds < PER_SECOND:
        return None
    segments = max((row["sent_bytes"] or 0) / SEGMENT_BYTES, row["all_times"])
    if row["sent_bytes"] and row["all_times"] < OF_SENT * segments:
        return None
    of_it = row["times"] / row["all_times"]
    culprit = f"the link to {row['remote_ip']}" if of_it >= MOSTLY else "its network"
    cost = max(COST_NS, 2 * (row["rtt_ns"] or 0))
    evidence = [
        f"{row['all_times']:,} segments were sent again, "
        f"{row['all_times'] / seconds:.3g} a second; "
        f"{row['times']:,} of them to {row['remote_ip']}",
    ]
    if row["sent_bytes"]:
        evidence.append(f"that is {percent(row['all_times'] / segments)} of what it sent")
    if slower and slower["with_ns"] and slower["without_ns"]:
        evidence.append(
            f"its collectives take {slower['with_ns'] / slower['without_ns']:.2f} times as long in "
            "seconds with retransmits"
        )
    return Finding(
        kind="lossy link",
        victim=row["tenant"],
        culprit=culprit,
        share=min(row["all_times"] * cost / (seconds * 1e9), 1.0),
        confidence=0.6 + 0.35 * of_it,
        title=f"{row['tenant']} loses packets on {culprit}",
        evidence=tuple(evidence),
        next=shell.ask("retransmits", row["tenant"]),
        base="the time seen, at a round trip or more for each",
        cost_ns=row["all_times"] * cost,
        nodes=(row["node"],),
    )
