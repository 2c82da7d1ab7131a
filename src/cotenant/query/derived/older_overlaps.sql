-- view: For each pair of tenants on a GPU, how long both had work on it before the oldest spans that are
-- kept: added up from gpu_overlaps.
-- from: gpu_overlaps, older_busy, containers
with sole as (
    select node, min(gpu) as gpu
    from older_busy
    where gpu is not null
    group by node
    having count(distinct gpu) = 1
)
select
    c.tenant,
    n.tenant                                        as other,
    o.node,
    coalesce(o.gpu, s.gpu)                          as gpu,
    sum(o.overlap_ns)::bigint                       as overlap_ns
from gpu_overlaps o
join containers c using (cgroup_id)
join containers n on n.cgroup_id = o.other_cgroup_id
left join sole s on s.node = o.node
where not by_spans(o.node, o.timestamp_ns) and c.tenant <> n.tenant
group by all
