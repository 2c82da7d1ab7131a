-- title: GPU memory that grows
-- question: Whose GPU memory grows, how fast, and through which calls?
-- reading: `rises` is the share of changes that are increases. Near 1, with a growth that does not
-- level off, it is a leak or an unbounded cache. `unfreed` is allocations minus frees.
with held as (
    select
        tenant,
        gpu,
        timestamp_ns,
        bytes,
        bytes - lag(bytes) over (partition by tenant, gpu order by timestamp_ns) as change
    from held_memory
    where bytes is not null
),
calls as (
    select
        c.tenant,
        sum(e.weight) filter (e.op = 'alloc')::bigint as allocs,
        sum(e.weight) filter (e.op = 'free')::bigint  as frees,
        mode(e.api) filter (e.op = 'alloc')           as through
    from cuda_events e
    join containers c using (cgroup_id)
    where e.op in ('alloc', 'free')
    group by c.tenant
)
select
    h.tenant,
    h.gpu,
    arg_min(h.bytes, h.timestamp_ns)                as first_bytes,
    arg_max(h.bytes, h.timestamp_ns)                as held_bytes,
    arg_max(h.bytes, h.timestamp_ns) - arg_min(h.bytes, h.timestamp_ns) as growth_bytes,
    regr_slope(h.bytes, h.timestamp_ns) * 1e9       as per_s_bytes,
    count(*) filter (h.change > 0) / nullif(count(*) filter (h.change <> 0), 0) as rises,
    coalesce(any_value(k.allocs), 0) - coalesce(any_value(k.frees), 0) as unfreed,
    any_value(k.through)                            as through
from held h
left join calls k using (tenant)
group by h.tenant, h.gpu
order by growth_bytes desc, h.tenant, h.gpu
