-- view: How often each tenant called each kernel or other operation of CUDA, and how long the calls
-- took on the host. A launch that failed is none: failed_calls has it. Added up from rows in a window of up to an hour, else from rollups.
-- from: cuda_events, containers
-- before: rollups
with calls as (
    select
        cgroup_id,
        kernel_name,
        sum(weight)                                 as calls,
        sum(duration_ns * weight)                   as total_ns,
        max(duration_ns)                            as longest_ns
    from cuda_events
    where by_rows(node, timestamp_ns)
      and (op not in ('launch', 'graph_launch') or coalesce(result, 0) = 0)
    group by all
    union all
    select
        cgroup_id,
        name                                        as kernel_name,
        sum(count)                                  as calls,
        sum(sum_ns)                                 as total_ns,
        max(max_ns)                                 as longest_ns
    from rollups
    where family = 'cuda' and not by_rows(node, timestamp_ns)
    group by all
)
select
    c.tenant,
    a.kernel_name,
    sum(a.calls)::bigint                            as calls,
    sum(a.total_ns)::bigint                         as total_ns,
    max(a.longest_ns)                               as longest_ns
from calls a
join containers c using (cgroup_id)
group by c.tenant, a.kernel_name
