-- title: Calls under way
-- question: Which calls have begun and not returned, and since when?
-- param: longer DURATION = 0s   only calls under way for longer than this
-- param: tenants TENANTS = null   whom it is about, as --tenant says; others are looked at too
-- reading: As of the recording's last look. A collective that is under way on some ranks and not
-- on others is waiting for the others; a wait for a stream is waiting for what was queued on it.
with looks as (
    select node, timestamp_ns, true as found from in_flight
    union all
    select node, timestamp_ns, false from totals
    union all
    select node, timestamp_ns, false from losses
),
last as (
    select node, max(timestamp_ns) filter (found) as timestamp_ns
    from looks
    group by node
    -- A look that finds nothing leaves no row here, but is counted all the same.
    having max(timestamp_ns) filter (found) >= max(timestamp_ns) - 2000000000
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
  and ($tenants is null or list_contains($tenants, c.tenant))
order by under_way_ns desc, c.tenant, f.pid, f.tid, f.function
