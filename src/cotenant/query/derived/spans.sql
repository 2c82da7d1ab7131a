-- view: When a tenant had work on a GPU: from the first launch on an idle stream to the call
-- that proves the stream done.
-- from: containers
with known as (
    select node, pid, min(gpu) as gpu
    from stored.spans
    where gpu is not null
    group by node, pid
    having count(distinct gpu) = 1
)
select
    c.tenant,
    s.cgroup_id,
    s.node,
    -- Where its GPU is not known, it is the only one of its process.
    coalesce(s.gpu, k.gpu)                          as gpu,
    s.pid,
    s.stream,
    s.proof_ns,
    s.timestamp_ns                                  as start_ns,
    s.end_ns,
    s.done_ns,
    s.certain_from_ns,
    s.certain_until_ns,
    s.end_ns - s.timestamp_ns                       as span_ns,
    s.proof_ns is not null                          as proven,
    s.proof_ns is not null and s.waited_ns >= 10000 as waited,
    s.waited_ns,
    s.proof_api,
    s.streams::bigint                               as streams,
    s.launches,
    s.copies,
    s.copied_bytes,
    s.collectives,
    s.mix                                           as signature,
    s.total_extent,
    case when s.proof_ns is not null then
        hash(s.node, s.cgroup_id, s.pid, s.context, s.stream, s.timestamp_ns, s.proof_ns, s.copies)
    end                                             as span,
    s.timestamp_ns,
    s.context,
    s.closed_by,
    s.mix,
    s.shed,
    s.lost
from stored.spans s
join containers c using (cgroup_id)
left join known k on s.gpu is null and k.node = s.node and k.pid = s.pid
