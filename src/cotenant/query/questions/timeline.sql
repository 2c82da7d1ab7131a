-- title: Timeline
-- question: What did a tenant do, call by call?
-- param: limit BIGINT = 100   how many rows to show
-- param: longer DURATION = 0s   only calls that took at least this long
-- nodes: each first
-- reading: Calls in the order they began, of all tenants unless --tenant names one; `after` is
-- the time since the thread's last call returned.
with calls as (
    select timestamp_ns, pid, tid, cgroup_id, node, 'cuda' as family, op, kernel_name as what,
           duration_ns, bytes, result
    from cuda_events
    union all
    select timestamp_ns, pid, tid, cgroup_id, node, 'nccl', op, coalesce(comm_name, api),
           duration_ns, bytes, result
    from nccl_events
),
-- What is shown, to leave out what comes later before calls are put in order.
shown as (
    select p.timestamp_ns, p.tid
    from calls p
    join containers c using (cgroup_id)
    where coalesce(p.duration_ns, 0) >= $longer
    order by p.timestamp_ns, p.tid, p.what, p.op, c.tenant, p.node
    limit $limit
),
placed as (
    select
        *,
        timestamp_ns - lag(timestamp_ns + coalesce(duration_ns, 0)) over (
            partition by node, tid order by timestamp_ns, family, what
        )                                           as after_ns
    from calls
    where timestamp_ns <= (select max(timestamp_ns) from shown)
      and tid in (select tid from shown)
),
first as (
    select
        c.tenant,
        p.timestamp_ns                              as began_at_ns,
        p.tid,
        p.family,
        p.op,
        p.what,
        p.duration_ns,
        p.after_ns,
        p.bytes,
        nullif(p.result, 0)                         as error,
        p.node
    from placed p
    join containers c using (cgroup_id)
    where coalesce(p.duration_ns, 0) >= $longer
    order by began_at_ns, p.tid, p.what, p.op, c.tenant, p.node
    limit $limit
)
select * exclude (node)
from first
order by began_at_ns, tid, what, op, tenant, node
limit $limit
