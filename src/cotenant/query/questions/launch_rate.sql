-- title: Launch rate and latency
-- question: How many kernels does each tenant launch, and how long does a launch take it?
-- param: step PERIOD = 1s   length of a window
-- param: limit BIGINT = 200   how many rows to show
-- reading: One row per tenant and window. A steady mean with a jumping peak is a full
-- queue or a thread that lost its CPU; see around_slow_call for that moment.
with recent as (
    -- No more steps than rows are shown.
    select min(step_ns) as from_ns
    from (
        select distinct (timestamp_ns // $step) * $step as step_ns
        from cuda_events
        where op in ('launch', 'graph_launch')
        order by step_ns desc
        limit $limit
    )
)
select
    c.tenant,
    (e.timestamp_ns // $step) * $step               as start_at_ns,
    sum(e.weight)::bigint                           as launches,
    sum(e.weight) * 1e9 / $step                     as launches_per_s,
    (sum(e.duration_ns * e.weight) / sum(e.weight))::bigint as mean_ns,
    quantile_disc(e.duration_ns, 0.99)              as p99_ns,
    max(e.duration_ns)                              as peak_ns
from cuda_events e
join containers c using (cgroup_id)
where e.op in ('launch', 'graph_launch') and e.timestamp_ns >= (select from_ns from recent)
group by all
order by start_at_ns desc, launches desc, c.tenant
limit $limit
