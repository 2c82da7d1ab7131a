-- view: For how long each tenant had work on each GPU before the oldest spans that are kept: added up
-- from gpu_seconds, which tell of no single periods. Work began before `begun_ns`, and ended after
-- `until_ns`.
-- from: gpu_seconds, containers
with sole as (
    select node, min(gpu) as gpu
    from gpu_seconds
    where gpu is not null and not by_spans(node, timestamp_ns)
    group by node
    having count(distinct gpu) = 1
)
select
    c.tenant,
    g.node,
    coalesce(g.gpu, o.gpu)                          as gpu,
    sum(g.busy_ns)::bigint                          as busy_ns,
    sum(g.unproven_ns)::bigint                      as unproven_ns,
    min(g.timestamp_ns) filter (g.busy_ns > 0)      as first_ns,
    max(g.timestamp_ns + g.seconds * 1_000_000_000) filter (g.busy_ns > 0) as last_ns,
    -- It may have been in any second of a minute or an hour.
    min(g.timestamp_ns + g.seconds * 1_000_000_000) filter (g.busy_ns > 0) as begun_ns,
    max(g.timestamp_ns) filter (g.busy_ns > 0)      as until_ns
from gpu_seconds g
join containers c using (cgroup_id)
left join sole o on o.node = g.node
where not by_spans(g.node, g.timestamp_ns)
group by all
having sum(g.busy_ns) > 0
