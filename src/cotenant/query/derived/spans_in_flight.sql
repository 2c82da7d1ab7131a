-- view: Spans that reach into the window, also those that began before it, and from when to when each was
-- within the window.
-- from: spans, containers
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
    -- As in spans.
    coalesce(s.gpu, k.gpu)                          as gpu,
    s.pid,
    s.timestamp_ns                                  as start_ns,
    s.end_ns,
    greatest(s.timestamp_ns, w.from_ns)             as within_from_ns,
    least(s.end_ns, w.to_ns)                        as within_to_ns,
    s.proof_ns is not null                          as proven,
    s.mix,
    s.streams,
    s.closed_by,
    s.launches,
    s.copied_bytes,
    s.proof_ns,
    s.done_ns,
    s.certain_from_ns,
    s.certain_until_ns
from whole.spans s
cross join whole.bounds w
join containers c using (cgroup_id)
left join known k on s.gpu is null and k.node = s.node and k.pid = s.pid
