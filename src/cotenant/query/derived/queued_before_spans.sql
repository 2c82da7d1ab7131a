-- view: For how long each tenant had work in flight on each GPU before the oldest spans that are kept: added
-- up from gpu_seconds, which have no single periods.
-- from: gpu_seconds, containers
select
    c.tenant,
    g.node,
    g.gpu,
    sum(g.queued_ns * part)::bigint                 as queued_ns,
    sum(g.unproven_ns * part)::bigint               as unproven_ns,
    min(g.timestamp_ns)                             as first_ns,
    max(g.timestamp_ns + g.seconds * 1_000_000_000) as last_ns
from (
    select
        *,
        -- Of a row that reaches beyond the window, as much as is within it.
        least((to_ns - timestamp_ns) / (seconds * 1e9), 1) as part
    from gpu_seconds, whole.bounds
) g
join containers c using (cgroup_id)
where not by_spans(g.node, g.timestamp_ns) and g.queued_ns > 0
group by all
