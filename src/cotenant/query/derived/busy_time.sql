-- view: For how long each tenant had work on each GPU: its spans, joined where they touch. Before the
-- oldest spans that are kept: added up from gpu_seconds, which have no single periods.
-- from: busy
-- before: gpu_seconds, containers
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
added_up as (
    select
        c.tenant,
        g.node,
        g.gpu,
        sum(g.busy_ns * part)                       as busy_ns,
        sum(g.unproven_ns * part)                   as unproven_ns,
        min(g.timestamp_ns)                         as first_ns,
        max(g.timestamp_ns + g.seconds * 1_000_000_000) as last_ns
    from (
        select
            *,
            -- Of a row that reaches beyond the window, as much as is within it.
            least((to_ns - timestamp_ns) / (seconds * 1e9), 1) as part
        from gpu_seconds, whole.bounds
    ) g
    join containers c using (cgroup_id)
    where not by_spans(g.node, g.timestamp_ns) and g.busy_ns > 0
    group by all
)
select
    tenant,
    node,
    gpu,
    sum(busy_ns)::bigint                            as busy_ns,
    sum(periods)::bigint                            as periods,
    max(longest_ns)                                 as longest_ns,
    coalesce(sum(unproven_ns), 0)::bigint           as added_up_unproven_ns,
    min(first_ns)                                   as first_ns,
    max(last_ns)                                    as last_ns
from (from kept union all by name from added_up)
group by tenant, node, gpu
