-- title: Cold start
-- question: How long did each process need before its first kernel, and for what?
-- reading: From the cgroup's birth (or the first call seen) to the end of the first launch. What
-- is not in `init`, `context`, `module`, `alloc` or `copy` was spent outside CUDA: imports, data,
-- weights.
with calls as (
    select
        c.tenant,
        e.*,
        c.created_ns,
        min(e.timestamp_ns) filter (e.op in ('launch', 'graph_launch')) over (
            partition by e.node, e.pid
        )                                           as first_launch_ns
    from cuda_events e
    join containers c using (cgroup_id)
)
select
    tenant,
    pid,
    any_value(comm)                                 as comm,
    min(timestamp_ns)                               as first_call_at_ns,
    any_value(first_launch_ns) - least(min(timestamp_ns), coalesce(
        case when any_value(created_ns) < min(timestamp_ns) then any_value(created_ns) end,
        min(timestamp_ns)
    ))                                              as until_first_launch_ns,
    sum(duration_ns) filter (op = 'init')::bigint   as init_ns,
    sum(duration_ns) filter (op = 'context')::bigint as context_ns,
    sum(duration_ns) filter (op = 'module')::bigint as module_ns,
    sum(duration_ns) filter (op = 'alloc')::bigint  as alloc_ns,
    sum(duration_ns) filter (op = 'memcpy')::bigint as copy_ns,
    arg_max(duration_ns, op = 'launch') filter (timestamp_ns = first_launch_ns) as first_launch_call_ns
from calls
where timestamp_ns <= first_launch_ns
group by tenant, node, pid
order by until_first_launch_ns desc, tenant, pid
