"""A process that needs long before its first kernel."""

from typing import Any, Final

from cotenant.query import command
from cotenant.query.derived import Ask
from cotenant.query.explain.finding import Finding, percent

TABLES: Final = ("cuda_events",)
NEEDS: Final = ("cuda_events",)
LONG_NS: Final = 2e9
OF_ITS_TIME: Final = 0.2

_SQL: Final = """
with calls as (
    select
        c.tenant,
        c.created_ns,
        e.node,
        e.pid,
        e.op,
        e.timestamp_ns,
        coalesce(e.duration_ns, 0)                  as duration_ns,
        min(e.timestamp_ns) filter (e.op in ('launch', 'graph_launch')) over process as launch_ns,
        max(e.timestamp_ns + coalesce(e.duration_ns, 0)) over process as last_ns,
        min(e.timestamp_ns) over process            as first_ns
    from cuda_events e
    join containers c using (cgroup_id)
    window process as (partition by e.node, e.pid)
),
started as (
    select
        tenant,
        pid,
        -- A process is new if its cgroup is, or if it was seen to initialise CUDA.
        least(any_value(first_ns), any_value(created_ns)) as begun_ns,
        any_value(launch_ns)                        as launch_ns,
        any_value(last_ns)                          as last_ns,
        coalesce(sum(duration_ns) filter (op = 'init'), 0)::double as init_ns,
        coalesce(sum(duration_ns) filter (op = 'context'), 0)::double as context_ns,
        coalesce(sum(duration_ns) filter (op = 'module'), 0)::double as module_ns,
        coalesce(sum(duration_ns) filter (op in ('memcpy', 'alloc')), 0)::double as copy_ns,
        bool_or(op = 'init') or any_value(created_ns) is not null as fresh
    from calls
    where timestamp_ns <= launch_ns
    group by tenant, node, pid
)
select *
from started
qualify row_number() over (partition by tenant order by launch_ns - begun_ns desc) = 1
"""
_PARTS: Final = {
    "init_ns": "initialising CUDA",
    "context_ns": "making contexts",
    "module_ns": "loading modules",
    "copy_ns": "allocating and copying weights",
}


def find(ask: Ask) -> list[Finding]:
    """The slowest start of each tenant, if it is slow."""
    return [f for row in ask(_SQL).to_pylist() if (f := _finding(row)) is not None]


def _finding(row: dict[str, Any]) -> Finding | None:
    took = row["launch_ns"] - row["begun_ns"]
    share = took / max(row["last_ns"] - row["begun_ns"], 1)
    if not row["fresh"] or took < LONG_NS or share < OF_ITS_TIME:
        return None
    parts = {text: row[name] for name, text in _PARTS.items()}
    parts["outside CUDA (imports, data, weights)"] = max(took - sum(parts.values()), 0)
    largest = max(parts, key=lambda text: parts[text])
    spent = ", ".join(
        f"{percent(ns / took)} {text}" for text, ns in parts.items() if ns >= 0.01 * took
    )
    return Finding(
        kind="cold start",
        victim=row["tenant"],
        culprit=row["tenant"],
        share=min(share, 1.0),
        confidence=0.9,
        title=f"{row['tenant']} took {took / 1e9:.3g} s to its first kernel, mostly {largest}",
        evidence=(
            f"that is {percent(share)} of the time that process {row['pid']} was seen",
            f"of it {spent}",
        ),
        next=command.ask("cold_start", row["tenant"]),
    )
