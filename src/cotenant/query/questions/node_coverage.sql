-- title: What each node recorded
-- question: Which times and events of each node does the store have, and which does it lack?
-- nodes: each nodes
-- reading: `recorded` is the time in which a recorder ran; `silent` is how long before the newest row of
-- all nodes this one's ended. `lost` and `shed` are events without a row; `holes` is how many times
-- something went unseen, `blind` the longest and `tenant` whose that was. `clock_error` is how far the host's clock may be from
-- UTC, NULL if nothing keeps it. A node without recordings in the window has only its name.
with counted as (
    select
        node,
        min(first_ns)                               as oldest_ns,
        max(timestamp_ns)                           as newest_ns
    from totals
    group by node
),
recordings as (
    select
        s.node,
        count(*)                                    as recordings,
        arg_max(s.kernel, s.started_ns)             as kernel,
        arg_max(s.clock_error_ns, s.started_ns)     as clock_error_ns,
        sum(greatest(coalesce(s.ended_ns, c.newest_ns, s.started_ns) - s.started_ns, 0))::bigint
                                                    as recorded_ns
    from sessions s
    left join counted c using (node)
    group by s.node
),
lacking as (
    select
        l.node,
        sum(l.lost)::bigint                         as lost,
        sum(l.shed)::bigint                         as shed,
        count(*) filter (l.from_ns is not null and l.lost + l.shed = 0) as holes,
        max(l.to_ns - l.from_ns) filter (l.lost + l.shed = 0) as blind_ns,
        arg_max(c.tenant, (l.to_ns - l.from_ns, c.tenant)) filter (
            l.lost + l.shed = 0 and l.from_ns is not null
        )                                           as tenant
    from losses l
    left join containers c using (cgroup_id)
    group by l.node
),
nodes as (
    select
        coalesce(r.node, c.node)                    as node,
        r.* exclude (node),
        c.* exclude (node),
        l.* exclude (node)
    from recordings r
    full join counted c on c.node = r.node
    left join lacking l on l.node = coalesce(r.node, c.node)
)
select
    node,
    kernel,
    recordings,
    recorded_ns,
    oldest_ns                                       as oldest_at_ns,
    newest_ns                                       as newest_at_ns,
    max(newest_ns) over () - newest_ns              as silent_ns,
    lost,
    shed,
    holes,
    blind_ns,
    tenant,
    clock_error_ns
from nodes
order by silent_ns desc nulls first, lost desc nulls last, node
