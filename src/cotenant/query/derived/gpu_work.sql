-- view: Every operation queued on a stream, and the call that proves it done: a wait for the
-- stream or the context, a query that found it ready, or a copy that returns when it is done.
-- from: cuda_events, containers, sessions
with known as (
    select node, pid, min(gpu) as gpu
    from cuda_events
    where gpu is not null
    group by node, pid
    having count(distinct gpu) = 1
),
recordings as (
    select node, list(started_ns) as starts
    from sessions
    group by node
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
        -- Calls between two recordings are unknown: a later recording proves nothing.
        coalesce(len(list_filter(r.starts, lambda s: s <= e.timestamp_ns)), 0) as recording,
        -- One number to join by is faster than four columns.
        hash(e.node, e.pid, stream_key, recording)  as queue,
        coalesce(e.duration_ns, 0)                  as call_ns
    from cuda_events e
    join containers c using (cgroup_id)
    left join known k on k.node = e.node and k.pid = e.pid
    left join recordings r on r.node = e.node
    where coalesce(e.result, 0) = 0
),
work as (
    select *
    from calls
    where op in ('launch', 'graph_launch', 'memcpy', 'memset')
),
queues as (
    select distinct node, pid, recording, queue
    from work
),
proofs as (
    -- A wait for a CUDA event proves what was queued before the event, which is not known here.
    select queue, timestamp_ns, call_ns, api, op
    from calls
    where op in ('sync', 'query') and stream is not null and api not ilike '%event%'
    union all
    select queue, timestamp_ns, call_ns, api, op
    from calls
    where op = 'memcpy' and stream is null
      and (direction = 'DtoH' or (direction = 'HtoD' and bytes > 65536))
    union all
    select q.queue, c.timestamp_ns, c.call_ns, c.api, c.op
    from calls c
    join queues q on q.node = c.node and q.pid = c.pid and q.recording = c.recording
    where c.op = 'sync' and c.stream is null and c.api not ilike '%event%'
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
    w.recording,
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
    -- Its weight in its span, in threads; a link moves about 25 bytes in the time of one thread.
    greatest(case when w.op = 'launch' then size else size / 25 end, 1)::double as extent,
    w.gpu_ns,
    w.gpu_ns_source,
    w.weight,
    p.timestamp_ns                                  as proof_ns,
    p.timestamp_ns + p.call_ns                      as proof_end_ns,
    p.api                                           as proof_api,
    p.op                                            as proof_op,
    case when p.queue is not null then hash(w.queue, p.timestamp_ns, w.tenant) end as span
from work w
asof left join proofs p
  on p.queue = w.queue and w.timestamp_ns <= p.timestamp_ns
