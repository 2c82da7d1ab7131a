-- title: Copies and bandwidth
-- question: How much does each tenant copy, in which direction, and how fast?
-- nodes: each copied
-- reading: `host` is the time spent inside copy calls on the host; an asynchronous copy returns
-- before it is done, so `per_host_s` is a bandwidth only if `waits` shows that the calls wait.
with copied as (
    select
        c.tenant,
        e.direction,
        sum(e.weight)                               as copies,
        sum(e.bytes::hugeint * e.weight)            as total_bytes,
        max(e.bytes)                                as largest_bytes,
        sum(e.duration_ns * e.weight)               as host_ns,
        min(e.timestamp_ns)                         as first_ns,
        max(e.timestamp_ns)                         as last_ns,
        bool_and(e.stream is null)                  as waits
    from cuda_events e
    join containers c using (cgroup_id)
    where e.op = 'memcpy'
    group by c.tenant, e.direction
)
select
    c.tenant,
    coalesce(c.direction, '?')                      as direction,
    sum(c.copies)::bigint                           as copies,
    try_cast(sum(c.total_bytes) as bigint) as total_bytes,
    max(c.largest_bytes)                            as largest_bytes,
    sum(c.host_ns)::bigint                          as host_ns,
    sum(c.total_bytes) * 1e9 / nullif(sum(c.host_ns), 0) as per_host_s_bytes,
    sum(c.total_bytes) * 1e9 / nullif(max(c.last_ns) - min(c.first_ns), 0) as per_s_bytes,
    bool_and(c.waits)                               as waits
from copied c
group by c.tenant, c.direction
order by total_bytes desc nulls last, c.tenant, c.direction
