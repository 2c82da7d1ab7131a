"""A collective that some ranks are in and others are not."""

from typing import Any, Final

from cotenant.query.derived.registry import Ask
from cotenant.query.engine.cuts import Spread
from cotenant.query.findings.finding import Finding

NEEDS: Final = ("calls_under_way", "nccl_events")
NODES: Final = Spread.COMMUNICATORS
LONG_NS: Final = 10e9
LONGER: Final = 20  # In units of the longest call that returned.

_SQL: Final = """
with usual as (
    select comm_hash, max(duration_ns) as longest_ns
    from nccl_events
    group by comm_hash
),
members as (
    select n.comm_hash, n.pid, n.node, any_value(n.rank) as rank, any_value(c.tenant) as tenant,
           max(n.nranks) as nranks, max(n.timestamp_ns) as last_ns
    from nccl_events n
    join containers c using (cgroup_id)
    where n.comm_hash is not null and n.rank is not null
    group by n.comm_hash, n.pid, n.node
),
stuck as (
    select
        f.comm_hash,
        f.pid,
        f.node,
        f.function,
        f.began_ns,
        f.timestamp_ns - f.began_ns                 as age_ns,
        c.tenant
    from calls_under_way f
    join containers c using (cgroup_id)
    where f.comm_hash is not null
)
select
    s.comm_hash,
    any_value(s.function)                           as function,
    max(s.age_ns)                                   as age_ns,
    any_value(u.longest_ns)                         as longest_ns,
    string_agg(distinct s.tenant, ', ' order by s.tenant) as victims,
    list(distinct m.rank)                           as ranks_in,
    (select list({'rank': o.rank, 'tenant': o.tenant} order by o.rank) from members o
      where o.comm_hash = s.comm_hash
        and not exists (from stuck i where i.comm_hash = o.comm_hash and i.pid = o.pid
                                       and i.node = o.node)) as missing,
    max(m.nranks)                                   as nranks
from stuck s
left join usual u on u.comm_hash = s.comm_hash
left join members m on m.comm_hash = s.comm_hash and m.pid = s.pid and m.node = s.node
group by s.comm_hash
order by s.comm_hash
"""


def find(ask: Ask) -> list[Finding]:
    """Every communicator that stands still."""
    return [f for row in ask(_SQL).to_pylist() if (f := _finding(row)) is not None]


def _finding(row: dict[str, Any]) -> Finding | None:
    if row["age_ns"] < max(LONG_NS, LONGER * (row["longest_ns"] or 0)):
        return None
    missing = row["missing"] or []
    inside = sorted(rank for rank in row["ranks_in"] or [] if rank is not None)
    culprit = ", ".join(f"{m['tenant']} rank {m['rank']}" for m in missing) or None
    unseen = (row["nranks"] or 0) - len(inside) - len(missing)
    absent = f"{culprit} never entered it" if culprit else f"{unseen} ranks are not on this host"
    return Finding(
        kind="hung collective",
        victim=row["victims"],
        culprit=culprit,
        share=1.0,
        confidence=0.95 if culprit else 0.7,
        title=f"{row['victims']} hang in {row['function']}",
        evidence=(
            f"under way for {row['age_ns'] / 1e9:.3g} s; the longest call on this communicator "
            f"that returned took {(row['longest_ns'] or 0) / 1e6:.3g} ms",
            f"ranks {', '.join(map(str, inside))} of {row['nranks']} are in it; {absent}",
        ),
        next="cotenant ask under_way longer=5s",
        base="the time since the call began",
        cost_ns=row["age_ns"],
        lasts=True,
    )
