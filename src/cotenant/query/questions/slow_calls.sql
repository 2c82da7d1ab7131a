-- title: Slowest CUDA calls
-- question: In which call does each tenant wait longest inside CUDA?
-- param: limit BIGINT = 20   how many rows to show
-- nodes: each counted
-- reading: Durations are those of the call on the host. A launch that takes milliseconds met a full
-- queue or lost its CPU; a wait that takes as long just waits for the GPU.
with counted as (
    -- By duration: there are fewer of them than calls, and a percentile of all calls is held in memory.
    select
        c.tenant,
        e.api,
        e.duration_ns,
        sum(e.rows)                                 as rows,
        sum(e.calls)                                as calls,
        min(e.first_ns)                             as first_ns
    from (
        select
            cgroup_id,
            api,
            duration_ns,
            count(*)                                as rows,
            sum(weight)                             as calls,
            min(timestamp_ns)                       as first_ns
        from cuda_events
        group by all
    ) e
    join containers c using (cgroup_id)
    group by all
),
ranked as (
    select
        n.*,
        max(n.duration_ns) over each_call           as most_ns,
        sum(n.rows) filter (n.duration_ns is not null) over each_call as measured,
        sum(n.rows) filter (n.duration_ns is not null) over (
            each_call order by n.duration_ns nulls last
        )                                           as up_to
    from counted n
    window each_call as (partition by n.tenant, n.api)
)
select
    tenant,
    api,
    sum(calls)::bigint                              as calls,
    (sum(duration_ns * calls) / sum(calls))::bigint as mean_ns,
    -- As quantile_disc: the first that at least 99 of 100 do not exceed.
    min(duration_ns) filter (up_to >= measured - floor(measured - measured * 0.99)) as p99_ns,
    max(duration_ns)                                as slowest_ns,
    min(first_ns) filter (duration_ns = most_ns)    as slowest_at_ns,
    sum(duration_ns * calls)::bigint                as total_ns
from ranked
group by tenant, api
order by p99_ns desc nulls last, tenant, api
limit $limit
