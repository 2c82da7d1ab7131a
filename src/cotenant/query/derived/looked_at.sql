-- table: How much time of each host is looked at: what was recorded of it within the window. Shares of
-- time have it as their base. The time between two recordings does not count.
-- from: totals, sessions, spans
-- before: gpu_seconds
with samples as (
    select distinct node, first_ns, timestamp_ns
    from totals
),
recordings as (
    select
        t.node,
        min(t.first_ns) - 1_000_000_000             as first_ns,
        max(t.timestamp_ns)                         as last_ns
    from samples t
    left join (select node, list(started_ns) as starts from sessions group by node) s using (node)
    group by t.node, len(list_filter(s.starts, lambda start: start <= t.timestamp_ns))
),
-- Without totals: as long as there was work.
worked as (
    select
        node,
        min(first_ns)                               as first_ns,
        min(coalesce(begun_ns, first_ns))           as begun_ns,
        max(coalesce(until_ns, last_ns))            as until_ns,
        max(last_ns)                                as last_ns
    from (
        select node, min(timestamp_ns) as first_ns, max(end_ns) as last_ns
        from stored.spans
        group by node
        union all by name
        select
            node,
            min(timestamp_ns)                       as first_ns,
            max(timestamp_ns + seconds * 1_000_000_000) as last_ns,
            -- It may have been in any second of a minute or an hour.
            min(timestamp_ns + seconds * 1_000_000_000) as begun_ns,
            max(timestamp_ns)                       as until_ns
        from gpu_seconds
        where busy_ns > 0 and not by_spans(node, timestamp_ns)
        group by node
    )
    group by node
),
added as (
    select node, sum(last_ns - first_ns) as time_ns, min(first_ns) as first_ns, max(last_ns) as last_ns
    from recordings
    group by node
)
select
    node,
    -- Work at the edge may be seen where the totals begin later. Of work in a minute in which they begin
    -- or end, they tell the edge.
    greatest(
        coalesce(a.time_ns, 0),
        coalesce(
            if(a.last_ns > w.until_ns and a.last_ns < w.last_ns, a.last_ns, w.last_ns)
            - if(a.first_ns > w.first_ns and a.first_ns < w.begun_ns, a.first_ns, w.first_ns),
            0
        )
    )::bigint                                       as time_ns
from added a
full join worked w using (node)
