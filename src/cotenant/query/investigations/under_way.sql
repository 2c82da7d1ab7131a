-- title: Calls under way
-- question: Which calls have begun and not returned, and since when?
-- param: longer DURATION = 0s   only calls under way for longer than this
-- reading: As of the recording's last look. A collective that is under way on some ranks and not
-- on others is waiting for the others; a wait for a stream is waiting for what was queued on it.
with last as (
    select node, max(timestamp_ns) as timestamp_ns
    from in_flight
    group by node
)
select
    c.tenant,
    f.pid,
    f.tid,
    f.comm,
    f.function,
    f.began_ns                                      as began_at_ns,
    f.timestamp_ns - f.began_ns                     as under_way_ns,
    f.comm_hash,
    f.stream
from in_flight f
join last l on l.node = f.node and l.timestamp_ns = f.timestamp_ns
join containers c using (cgroup_id)
where f.timestamp_ns - f.began_ns >= $longer
order by under_way_ns desc, c.tenant, f.pid, f.tid, f.function
