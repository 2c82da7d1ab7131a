-- view: For how long each tenant had work on each GPU: its spans, joined where they touch. Before the
-- oldest spans that are kept: added up from gpu_seconds, which tell of no single periods.
-- from: busy
-- before: older_busy
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
from (from kept union all by name from older_busy)
group by tenant, node, gpu
