"""A rank that all others of its communicator wait for, again and again."""

import math
from typing import Any, Final

from cotenant.query.derived.registry import Ask
from cotenant.query.engine.cuts import Spread
from cotenant.query.findings.finding import Finding, milliseconds, percent
from cotenant.query.text import shell

NEEDS: Final = ("collective_turns", "clock_offsets")
NODES: Final = Spread.COMMUNICATORS
FEWEST: Final = 20  # Collectives, below which nothing is again and again.
CHANCE: Final = 0.001

# Of nodes whose clocks cannot be compared there is nothing to tell, so their calls are left out.
_SQL: Final = """
with called as (
    select
        t.* replace (t.arrived_ns - coalesce(o.offset_ns, 0) as arrived_ns),
        coalesce(o.error_ns, 0)                     as error_ns
    from collective_turns t
    left join clock_offsets o on o.comm_hash = t.comm_hash and o.node = t.node
    where o.comm_hash is null or o.error_ns is not null
),
turns as (
    select
        comm_hash,
        op,
        turn,
        arg_max(rank, arrived_ns)                   as late_rank,
        -- Behind the one before it: all others would have been done waiting then.
        list_reverse_sort(list(arrived_ns))         as arrivals,
        max(arrived_ns)                             as began_ns,
        max(error_ns)                               as error_ns,
        count(*)                                    as ranks,
        max(nranks)                                 as nranks
    from called
    group by comm_hash, op, turn
    having count(*) > 1
),
paced as (
    select
        *,
        arrivals[1] - arrivals[2]                   as late_ns,
        began_ns - lag(began_ns) over (partition by comm_hash, op order by turn) as period_ns
    from turns
),
members as (
    select comm_hash, rank, any_value(tenant) as tenant, any_value(node) as node
    from called
    group by comm_hash, rank
)
select
    p.comm_hash,
    p.late_rank,
    m.tenant                                        as late_tenant,
    any_value(m.node)                               as late_node,
    (select count(distinct node) from members o where o.comm_hash = p.comm_hash) as nodes,
    max(p.error_ns)                                 as error_ns,
    (select string_agg(distinct tenant, ', ' order by tenant) from members o
      where o.comm_hash = p.comm_hash and o.rank <> p.late_rank) as others,
    count(*)                                        as times,
    sum(late_ns)::double                            as late_ns,
    median(late_ns)                                 as usual_ns,
    any_value(t.turns)                              as turns,
    any_value(t.period_ns)                          as period_ns,
    max(p.ranks)                                    as ranks
from paced p
join members m on m.comm_hash = p.comm_hash and m.rank = p.late_rank
join (
    select comm_hash, count(*) as turns, median(period_ns) as period_ns
    from paced
    group by comm_hash
) t on t.comm_hash = p.comm_hash
group by p.comm_hash, p.late_rank, m.tenant
"""


def _by_chance(times: int, turns: int, ranks: int) -> float:
    """How likely one of the ranks is last so often if each is equally likely to be."""
    mean = turns / ranks
    spread = math.sqrt(max(turns * (1 / ranks) * (1 - 1 / ranks), 1e-9))
    return min(1.0, ranks * 0.5 * math.erfc((times - 0.5 - mean) / spread / math.sqrt(2)))


def find(ask: Ask) -> list[Finding]:
    """Every such rank."""
    return [f for row in ask(_SQL).to_pylist() if (f := _finding(row)) is not None]


def _finding(row: dict[str, Any]) -> Finding | None:
    turns, times = row["turns"], row["times"]
    chance = _by_chance(times, turns, row["ranks"])
    if turns < FEWEST or chance > CHANCE or not row["period_ns"] or times < turns / 2:
        return None
    if row["usual_ns"] <= row["error_ns"]:
        return None
    share = row["late_ns"] / (row["period_ns"] * turns)
    culprit = f"{row['late_tenant']} rank {row['late_rank']}"
    where = f" on {row['late_node']}" if row["nodes"] > 1 else ""
    return Finding(
        kind="straggler rank",
        victim=row["others"],
        culprit=culprit,
        share=min(share, 1.0),
        confidence=min(0.98, times / turns),
        title=f"{row['others']} wait for {culprit}{where} in their collectives",
        evidence=(
            f"it was the last of {row['ranks']} ranks to arrive in {times:,} of {turns:,} "
            f"collectives; by chance that is {turns / row['ranks']:.0f}",
            f"it came {milliseconds(row['usual_ns'])} after the next to last, of a period of "
            f"{milliseconds(row['period_ns'])}: {percent(share)} of their time",
            *_clocks(row),
        ),
        next=shell.ask("late_ranks", row["late_tenant"]),
        base="the time of their collectives",
        cost_ns=row["late_ns"],
        nodes=(row["late_node"],),
    )


def _clocks(row: dict[str, Any]) -> tuple[str, ...]:
    if row["nodes"] < 2:
        return ()
    return (f"clocks of its {row['nodes']} nodes agree within {milliseconds(row['error_ns'])}",)
