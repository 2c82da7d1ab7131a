-- view: For how long each tenant had work on each GPU: its spans, joined where they touch; before the
-- oldest spans that are kept as queued_before_spans has it.
-- from: queued
-- before: queued_before_spans
with kept as (
    select
        tenant,
        node,
        gpu,
        sum(queued_ns)                              as queued_ns,
        count(*)                                    as periods,
        max(queued_ns)                              as longest_ns,
        min(start_ns)                               as first_ns,
        max(end_ns)                                 as last_ns
    from queued
    where by_spans(node, start_ns)
    group by tenant, node, gpu
)
select
    tenant,
    node,
    gpu,
    sum(queued_ns)::bigint                          as queued_ns,
    sum(periods)::bigint                            as periods,
    max(longest_ns)                                 as longest_ns,
    coalesce(sum(unproven_ns), 0)::bigint           as added_up_unproven_ns,
    min(first_ns)                                   as first_ns,
    max(last_ns)                                    as last_ns
from (from kept union all by name from queued_before_spans)
group by tenant, node, gpu
