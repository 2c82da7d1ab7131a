"""Runnable threads without a CPU, because of who ran there or of their own quota."""

from typing import Any, Final

from cotenant.query.derived.registry import Ask
from cotenant.query.engine.cuts import Spread
from cotenant.query.findings.finding import Finding, milliseconds, percent
from cotenant.query.text import shell

NEEDS: Final = ("host_events", "cpu_waits", "cpu_culprits")
NODES: Final = Spread.EACH
ONCE: Final = True
STARVED: Final = 0.10  # Of a thread's time without a CPU.
MOSTLY: Final = 0.5

# How long the worst thread of each tenant on a node waited, and who had its CPU meanwhile.
_WAITS: Final = """
with threads as (
    select node, tid, max(timestamp_ns + coalesce(duration_ns, 0)) - min(timestamp_ns) as seen_ns
    from host_events
    group by node, tid
),
-- What costs less than a hundredth of the time that is looked at is not worth a look.
looked_at as (
    select node, (max(timestamp_ns) - min(timestamp_ns)) / 100 as little_ns
    from host_events
    group by node
),
by_thief as (
    select
        w.tenant,
        w.node,
        w.pid,
        w.tid,
        t.tenant                                    as thief,
        sum(w.waited_ns * w.weight)::double         as waited_ns,
        sum(w.thief_ns * w.weight)::double          as thief_ns,
        sum(w.weight)                               as waits,
        max(w.waited_ns)                            as longest_ns
    from cpu_waits w
    left join containers t on t.cgroup_id = w.thief_cgroup_id
    group by all
),
by_thread as (
    select
        tenant,
        node,
        pid,
        tid,
        sum(waited_ns)                              as waited_ns,
        sum(waits)::bigint                          as waits,
        max(longest_ns)                             as longest_ns,
        sum(thief_ns) filter (thief is not null)    as known_ns,
        arg_max(thief, thief_ns) filter (thief is not null) as thief,
        max(thief_ns) filter (thief is not null)    as thief_ns
    from by_thief
    group by tenant, node, pid, tid
)
select b.*, t.seen_ns, c.waited_ns as had_ns, c.ran_ns
from by_thread b
join threads t using (node, tid)
join looked_at l on l.node = b.node
join cpu_culprits c on c.node = b.node and c.tenant = b.tenant and c.thief = b.thief
where b.waited_ns >= 0.1 * t.seen_ns and b.waits >= 20 and b.waited_ns >= l.little_ns
qualify row_number() over (partition by b.tenant, b.node order by b.waited_ns desc, b.tid) = 1
"""

# Of the thieves' threads the one that had a CPU for most of the tenant's waits.
_RAN: Final = """
with threads as (
    select node, cgroup_id, tid, any_value(pid) as pid, arg_max(comm, timestamp_ns) as comm
    from host_events
    group by all
),
by_thread as (
    select w.tenant, w.node, c.tenant as thief, w.peer_pid, any_value(t.pid) as pid,
           any_value(t.comm) as comm, sum(w.thief_ns * w.weight)::double as had_ns
    from cpu_waits w
    join containers c on c.cgroup_id = w.thief_cgroup_id
    left join threads t
      on t.node = w.node and t.tid = w.peer_pid and t.cgroup_id = w.peer_cgroup_id
    where w.peer_cgroup_id = w.thief_cgroup_id
    group by w.tenant, w.node, c.tenant, w.peer_pid
)
from by_thread
qualify row_number() over (partition by tenant, node, thief order by had_ns desc, peer_pid) = 1
"""

_QUOTA: Final = """
select
    c.tenant,
    h.node,
    sum(h.duration_ns * h.weight)::double           as stopped_ns,
    sum(h.weight)::bigint                           as times,
    max(h.timestamp_ns + h.duration_ns) - min(h.timestamp_ns) as seen_ns
from host_events h
join containers c using (cgroup_id)
where h.op = 'throttled'
group by c.tenant, h.node
having times >= 5
"""


def find(ask: Ask) -> list[Finding]:
    """Starved threads, one per tenant and node, and quotas that stop a tenant."""
    ran = {(r["tenant"], r["node"], r["thief"]): r for r in ask(_RAN).to_pylist()}
    waits = [
        _waiting(row, ran.get((row["tenant"], row["node"], row["thief"])))
        for row in ask(_WAITS).to_pylist()
    ]
    return [f for f in waits if f is not None] + [_stopped(r) for r in ask(_QUOTA).to_pylist()]


def _thread(row: dict[str, Any]) -> str:
    """The thread that had the CPU; its name is known where it has a row of its own."""
    name = f"{row['comm']} (process {row['pid']})" if row["comm"] else f"thread {row['peer_pid']}"
    return f"most of it in {name}: {milliseconds(row['had_ns'])}"


def _waiting(row: dict[str, Any], most: dict[str, Any] | None) -> Finding | None:
    share = row["waited_ns"] / max(row["seen_ns"], 1)
    of_it = min(row["thief_ns"], row["had_ns"]) / max(row["waited_ns"], 1)
    # Without somebody who had the CPU the wait proves nothing.
    if share < STARVED or row["known_ns"] < MOSTLY * row["waited_ns"]:
        return None
    culprit = row["thief"] if of_it >= MOSTLY else "several others"
    own = row["thief"] == row["tenant"]
    had = "its own threads" if culprit == row["tenant"] else culprit
    ran = f", of {milliseconds(row['ran_ns'])} that it ran in all" if row["ran_ns"] else ""
    return Finding(
        kind="CPU starvation",
        victim=row["tenant"],
        culprit=culprit,
        share=min(share, 1.0),
        confidence=min(0.95, 0.5 + of_it / 2),
        title=f"{row['tenant']} waits for a CPU that {had} had",
        evidence=(
            f"thread {row['tid']} was ready to run for {milliseconds(row['waited_ns'])} without a "
            f"CPU, {percent(share)} of its time, in {row['waits']:,} waits "
            f"(the longest {milliseconds(row['longest_ns'])})",
            f"{row['thief']} had a CPU for {milliseconds(row['had_ns'])} while a thread of "
            f"{row['tenant']} waited for it{ran}",
            *([_thread(most)] if most else []),
        ),
        next=shell.ask("who_stole_cpu", row["tenant"]) + " own=true" * own,
        base="that thread's time",
        cost_ns=row["waited_ns"],
        nodes=(row["node"],),
    )


def _stopped(row: dict[str, Any]) -> Finding:
    share = row["stopped_ns"] / max(row["seen_ns"], 1)
    return Finding(
        kind="CPU limit",
        victim=row["tenant"],
        culprit=None,
        share=min(share, 1.0),
        confidence=0.9,
        title=f"{row['tenant']} is stopped by its own CPU limit",
        evidence=(
            f"stopped {row['times']:,} times for {milliseconds(row['stopped_ns'])} in all, "
            f"{percent(share)} of its time",
        ),
        next=shell.ask("rightsize", row["tenant"]),
        base="the time from its first stop to its last",
        cost_ns=row["stopped_ns"],
        nodes=(row["node"],),
    )
