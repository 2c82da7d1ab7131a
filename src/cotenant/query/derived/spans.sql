-- view: When a tenant had work on a GPU: from the first launch on an idle stream to the call
-- that proves the stream done.
-- from: containers, sessions
with known as (
    select node, pid, min(gpu) as gpu
    from stored.spans
    where gpu is not null
    group by node, pid
    having count(distinct gpu) = 1
),
recordings as (
    select node, list(started_ns) as starts
    from sessions
    group by node
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
    -- As in gpu_work.
    case when s.proof_ns is not null then hash(
        hash(
            s.node, s.pid, s.stream,
            coalesce(len(list_filter(r.starts, lambda t: t <= s.timestamp_ns)), 0)
        ),
        s.proof_ns,
        c.tenant
    ) end                                           as span,
    s.timestamp_ns,
    s.context,
    s.closed_by,
    s.mix,
    s.shed,
    s.lost
from stored.spans s
join containers c using (cgroup_id)
left join known k on s.gpu is null and k.node = s.node and k.pid = s.pid
left join recordings r on r.node = s.node
