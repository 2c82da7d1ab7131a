-- view: Every operation that was queued on a stream, with its size.
-- from: cuda_events, containers
with known as (
    select node, pid, min(gpu) as gpu
    from cuda_events
    where gpu is not null
    group by node, pid
    having count(distinct gpu) = 1
),
calls as (
    select
        e.* exclude (gpu),
        -- Where a call's GPU is not known, it is the only one of its process.
        coalesce(e.gpu, k.gpu)                      as gpu,
        c.tenant,
        -- 0 and 1 are the legacy default stream, 2 is one for each thread.
        case
            when e.stream is null or e.stream in (0, 1) then 0
            when e.stream = 2                           then -e.tid
            else e.stream
        end                                         as stream_key,
        coalesce(e.duration_ns, 0)                  as call_ns
    from cuda_events e
    join containers c using (cgroup_id)
    left join known k on k.node = e.node and k.pid = e.pid
    where coalesce(e.result, 0) = 0 and e.op in ('launch', 'graph_launch', 'memcpy', 'memset')
)
select
    w.timestamp_ns,
    w.timestamp_ns + w.call_ns                      as queued_ns,
    w.pid,
    w.tid,
    w.cgroup_id,
    w.tenant,
    w.node,
    w.gpu,
    w.context,
    w.stream_key                                    as stream,
    w.op,
    w.kernel_name,
    w.nccl_op,
    w.direction,
    w.bytes,
    case
        when w.op = 'launch' then
            -- A tenant chooses the shape: a size that no number holds is unknown.
            try(w.grid_x::bigint * w.grid_y * w.grid_z * w.block_x * w.block_y * w.block_z)
        else w.bytes
    end                                             as size,
    w.gpu_ns,
    w.gpu_ns_source,
    w.weight
from calls w
