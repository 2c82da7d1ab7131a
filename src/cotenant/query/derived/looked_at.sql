-- table: For how much of the window each host was recorded. Shares of time have it as their base: whatever
-- work there was, whose rows are read, and how long nothing recorded between two recordings.
-- from: totals, sessions, losses, gpu_seconds
with recordings as (
    select
        node,
        started_ns,
        ended_ns,
        lead(started_ns) over (partition by node order by started_ns) as next_ns
    from whole.recordings
),
-- One that runs, or was killed, lasted as long as anything was counted.
signs as (
    select node, timestamp_ns from whole.beats
    union all
    select node, timestamp_ns from totals
    union all
    select node, timestamp_ns + seconds * 1_000_000_000 from gpu_seconds where queued_ns > 0
),
lasted as (
    select
        r.node,
        r.started_ns                                as from_ns,
        coalesce(any_value(r.ended_ns), max(s.timestamp_ns), r.started_ns) as to_ns
    from recordings r
    left join signs s
      on r.ended_ns is null and s.node = r.node and s.timestamp_ns >= r.started_ns
     and (r.next_ns is null or s.timestamp_ns < r.next_ns)
    group by r.node, r.started_ns
),
-- Of a node whose recordings are not known: from its first row to its last.
worked as (
    select node, min(from_ns) as from_ns, max(to_ns) as to_ns
    from (
        select node, min(first_ns) - 1_000_000_000 as from_ns, max(timestamp_ns) as to_ns
        from totals
        group by node
        union all
        select node, min(timestamp_ns), max(timestamp_ns + seconds * 1_000_000_000)
        from gpu_seconds
        where queued_ns > 0
        group by node
    )
    where node not in (select node from whole.recordings)
    group by node
)
select
    t.node,
    sum(greatest(least(t.to_ns, w.to_ns) - greatest(t.from_ns, w.from_ns), 0))::bigint as time_ns
from (from lasted union all from worked) t
cross join whole.bounds w
group by t.node
