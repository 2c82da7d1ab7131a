-- title: GPU memory that grows
-- question: Whose GPU memory grows, how fast, and through which calls?
-- nodes: each grown, calls
-- reading: `rises` is the share of changes that are increases. Near 1, with a growth that does not
-- level off, it is a leak or an unbounded cache. `unfreed` is allocations minus frees of this GPU's
-- memory that succeeded, `through` the call that allocated most often; pinned memory of the host is not
-- GPU memory, and not counted.
with held as (
    select
        *,
        bytes - lag(bytes) over (places order by timestamp_ns) as change,
        -- A slope over times since 1970 would be rounded.
        (timestamp_ns - min(timestamp_ns) over places) / 1e9 as second
    from held_memory
    where bytes is not null
    window places as (partition by tenant, node, gpu)
),
grown as (
    select
        tenant,
        node,
        gpu,
        arg_min(bytes, timestamp_ns)                as first_bytes,
        arg_max(bytes, timestamp_ns)                as held_bytes,
        -- Of samples at one moment there is none.
        case when max(second) > min(second) then regr_slope(bytes, second) end as per_s_bytes,
        count(*) filter (change > 0) / nullif(count(*) filter (change <> 0), 0) as rises
    from held
    group by tenant, node, gpu
),
calls as (
    select
        c.tenant,
        e.node,
        e.gpu,
        e.op,
        e.api,
        -- Not cuMemAllocHost, cudaHostAlloc, cudaFreeHost and their like.
        sum(e.weight) filter (e.result = 0 and not contains(e.api, 'Host')) as calls
    from cuda_events e
    join containers c using (cgroup_id)
    where e.op in ('alloc', 'free')
    group by all
),
called as (
    select
        tenant,
        node,
        gpu,
        sum(calls) filter (op = 'alloc')::bigint    as allocs,
        sum(calls) filter (op = 'free')::bigint     as frees
    from calls
    group by all
),
ways as (
    select tenant, node, gpu, arg_max(api, (calls, api)) as through
    from (select tenant, node, gpu, api, sum(calls) as calls from calls where op = 'alloc' and calls > 0 group by all)
    group by all
)
select
    g.tenant,
    g.gpu,
    g.first_bytes,
    g.held_bytes,
    g.held_bytes - g.first_bytes                    as growth_bytes,
    g.per_s_bytes,
    g.rises,
    coalesce(k.allocs, 0) - coalesce(k.frees, 0)    as unfreed,
    w.through
from grown g
left join called k on k.tenant = g.tenant and k.node = g.node and k.gpu is not distinct from g.gpu
left join ways w on w.tenant = g.tenant and w.node = g.node and w.gpu is not distinct from g.gpu
order by growth_bytes desc, g.tenant, g.gpu, g.node
