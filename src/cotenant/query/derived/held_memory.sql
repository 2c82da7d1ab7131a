-- view: GPU memory of each tenant on each GPU of a node, over all its cgroups. One row per change; it
-- holds until the next. `bytes` is NULL while any part is unknown.
-- from: gpu_memory, containers
with changes as (
    select
        c.tenant,
        m.node,
        m.gpu,
        m.timestamp_ns,
        coalesce(m.bytes, 0) - coalesce(lag(m.bytes) over own, 0) as bytes,
        coalesce(m.allocations, 0) - coalesce(lag(m.allocations) over own, 0) as allocations,
        (m.bytes is null)::bigint
            - coalesce(lag((m.bytes is null)::bigint) over own, 0) as unknown
    from gpu_memory m
    join containers c using (cgroup_id)
    window own as (partition by m.cgroup_id, m.gpu order by m.timestamp_ns)
),
moments as (
    select
        tenant,
        node,
        gpu,
        timestamp_ns,
        sum(bytes)                                  as bytes,
        sum(allocations)                            as allocations,
        sum(unknown)                                as unknown
    from changes
    group by tenant, node, gpu, timestamp_ns
)
select
    tenant,
    node,
    gpu,
    timestamp_ns,
    -- A tenant chooses the sizes: a sum that no number holds is unknown.
    case when sum(unknown) over so_far = 0 then try_cast(sum(bytes) over so_far as bigint) end as bytes,
    try_cast(sum(allocations) over so_far as bigint) as allocations
from moments
window so_far as (partition by tenant, node, gpu order by timestamp_ns)
