-- title: Copies and bandwidth
-- question: How much does each tenant copy, in which direction, and how fast?
-- reading: `busy` is the time spent inside copy calls on the host; an asynchronous copy returns
-- before it is done, so `per_busy_s` is a bandwidth only if `waits` shows that the calls wait.
select
    c.tenant,
    coalesce(e.direction, '?')                      as direction,
    sum(e.weight)::bigint                           as copies,
    sum(e.bytes * e.weight)::bigint                 as total_bytes,
    max(e.bytes)                                    as largest_bytes,
    sum(e.duration_ns * e.weight)::bigint           as busy_ns,
    sum(e.bytes * e.weight) * 1e9 / nullif(sum(e.duration_ns * e.weight), 0) as per_busy_s_bytes,
    sum(e.bytes * e.weight) * 1e9
        / nullif(max(e.timestamp_ns) - min(e.timestamp_ns), 0) as per_s_bytes,
    bool_and(e.stream is null)                      as waits
from cuda_events e
join containers c using (cgroup_id)
where e.op = 'memcpy'
group by c.tenant, e.direction
order by total_bytes desc nulls last, c.tenant, e.direction
