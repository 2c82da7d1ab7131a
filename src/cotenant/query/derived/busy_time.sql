-- view: For how long each tenant had work on each GPU: its spans, joined where they touch. Before the
-- oldest spans that are kept: added up from gpu_seconds, which tell of no single periods.
-- from: busy, containers
-- before: gpu_seconds
with kept as (
    select
        tenant,
        node,
        gpu,
        sum(busy_ns)                                as busy_ns,
        count(*)                                    as periods,
        max(busy_ns)                                as longest_ns,
        min(start_ns)                               as first_ns,
        max(end_ns)                                 as last_ns
    from busy
    where by_spans(node, start_ns)
    group by tenant, node, gpu
),
sole as (
    select node, min(gpu) as gpu
    from gpu_seconds
    where gpu is not null and not by_spans(node, timestamp_ns)
    group by node
    having count(distinct gpu) = 1
),
older as (
    select
        c.tenant,
        g.node,
        coalesce(g.gpu, o.gpu)                      as gpu,
        sum(g.busy_ns)                              as busy_ns,
        sum(g.unproven_ns)                          as unproven_ns,
        min(g.timestamp_ns) filter (g.busy_ns > 0)  as first_ns,
        max(g.timestamp_ns + g.seconds * 1_000_000_000) filter (g.busy_ns > 0) as last_ns
    from gpu_seconds g
    join containers c using (cgroup_id)
    left join sole o on o.node = g.node
    where not by_spans(g.node, g.timestamp_ns)
    group by all
    having sum(g.busy_ns) > 0
)
select
    tenant,
    node,
    gpu,
    sum(busy_ns)::bigint                            as busy_ns,
    sum(periods)::bigint                            as periods,
    max(longest_ns)                                 as longest_ns,
    coalesce(sum(unproven_ns), 0)::bigint           as older_unproven_ns,
    min(first_ns)                                   as first_ns,
    max(last_ns)                                    as last_ns
from (from kept union all by name from older)
group by tenant, node, gpu
