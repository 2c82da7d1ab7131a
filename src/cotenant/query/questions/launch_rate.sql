-- title: Launch rate and latency
-- question: How many kernels does each tenant launch, and how long does a launch take it?
-- param: step PERIOD = 1s   length of a window
-- param: limit BIGINT = 200   how many rows to show
-- nodes: each counted
-- reading: One row per tenant and window; launches that failed are in failed_calls. A steady mean with a jumping peak is a full
-- queue or a thread that lost its CPU; see around_slow_call for that moment.
with recent as (
    -- No more steps than rows are shown.
    select min(step_ns) as from_ns
    from (
        select distinct (timestamp_ns // $step) * $step as step_ns
        from cuda_events
        where op in ('launch', 'graph_launch') and coalesce(result, 0) = 0
        order by step_ns desc
        limit $limit
    )
),
counted as (
    -- By duration, to rank them over all nodes.
    select
        c.tenant,
        (e.timestamp_ns // $step) * $step           as start_at_ns,
        e.duration_ns,
        count(*)                                    as rows,
        sum(e.weight)                               as launches
    from cuda_events e
    join containers c using (cgroup_id)
    where e.op in ('launch', 'graph_launch') and coalesce(e.result, 0) = 0
      and e.timestamp_ns >= (select from_ns from recent)
    group by all
),
ranked as (
    select
        *,
        sum(rows) filter (duration_ns is not null) over each_step as measured,
        sum(rows) filter (duration_ns is not null) over (
            each_step order by duration_ns nulls last
        )                                           as up_to
    from counted
    window each_step as (partition by tenant, start_at_ns)
)
select
    r.tenant,
    r.start_at_ns,
    sum(r.launches)::bigint                         as launches,
    sum(r.launches) * 1e9 / $step                   as launches_per_s,
    (sum(r.duration_ns * r.launches) / sum(r.launches) filter (r.duration_ns is not null))::bigint
                                                    as mean_ns,
    -- As quantile_disc: the first that at least 99 of 100 do not exceed.
    min(r.duration_ns) filter (
        r.up_to >= r.measured - floor(r.measured - r.measured * 0.99)
    )                                               as p99_ns,
    max(r.duration_ns)                              as peak_ns
from ranked r
group by r.tenant, r.start_at_ns
order by r.start_at_ns desc, launches desc, r.tenant
limit $limit
