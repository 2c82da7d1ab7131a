-- view: When a tenant had any work on a GPU, within the window: its spans, joined where they touch.
-- from: spans_in_flight
with within as (
    select tenant, node, gpu, within_from_ns as start_ns, within_to_ns as end_ns
    from spans_in_flight
),
reached as (
    select
        tenant,
        node,
        gpu,
        start_ns,
        end_ns,
        max(end_ns) over (
            partition by tenant, node, gpu
            order by start_ns, end_ns
            rows between unbounded preceding and 1 preceding
        )                                           as reached_ns
    from within
),
islands as (
    select
        *,
        sum((reached_ns is null or start_ns > reached_ns)::bigint) over (
            partition by tenant, node, gpu order by start_ns, end_ns
        )                                           as island
    from reached
)
select
    tenant,
    node,
    gpu,
    min(start_ns)                                   as start_ns,
    max(end_ns)                                     as end_ns,
    max(end_ns) - min(start_ns)                     as queued_ns
from islands
group by tenant, node, gpu, island
