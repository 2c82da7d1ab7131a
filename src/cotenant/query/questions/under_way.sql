-- title: Calls under way
-- question: Which calls have begun and not returned, and since when?
-- param: longer DURATION = 0s   only calls under way for longer than this
-- param: tenants TENANTS = null   tenants to show, set by --tenant; rows of all tenants are read
-- nodes: each calls
-- reading: As of the recorder's last sample. A collective that is under way on some ranks only waits
-- for the others; a wait for a stream waits for what is queued on it.
with calls as (
    select
        c.tenant,
        f.pid,
        f.tid,
        f.comm,
        f.function,
        f.began_ns                                  as began_at_ns,
        f.timestamp_ns - f.began_ns                 as under_way_ns,
        f.comm_hash,
        f.stream,
        f.node
    from calls_under_way f
    join containers c using (cgroup_id)
    where f.timestamp_ns - f.began_ns >= $longer
      and ($tenants is null or list_contains($tenants, c.tenant))
)
select * exclude (node)
from calls
order by under_way_ns desc, tenant, pid, tid, function, node
