-- title: Before and after
-- question: What changed between two times, per tenant, kernel, image and build?
-- param: at TIME = null   where the second window begins; by default the middle of the recording
-- param: limit BIGINT = 30   how many rows to show
-- nodes: each ends
-- nodes: each named
-- reading: `before` and `after` are the mean durations of a call on the host in each window. A kernel
-- without `before` is new. An `image` or `build_id` that differs is a code change, and the rows that
-- changed with it are its effect. `change_ns` is by how much their time on the host grew, as if both
-- windows had been as long as the second. With `--against DIR` the whole of that store is `before`, and the
-- store asked is `after`.
with ends as (
    select min(timestamp_ns) as first_ns, max(timestamp_ns) as last_ns
    from cuda_events
),
bounds as (
    select
        coalesce($at, ((min(first_ns) + max(last_ns)) / 2)::bigint) as at_ns,
        if(
            $at is null, 1.0,
            greatest(max(last_ns) - at_ns, 0) / nullif(greatest(at_ns - min(first_ns), 0), 0)
        )                                           as longer
    from ends
),
calls as (
    select
        e.cgroup_id,
        e.kernel_name,
        e.timestamp_ns >= b.at_ns                   as later,
        sum(e.weight)                               as calls,
        sum(e.duration_ns * e.weight)               as total_ns
    from cuda_events e
    cross join bounds b
    group by all
),
named as (
    select c.tenant, c.image, a.* exclude (cgroup_id)
    from calls a
    join containers c using (cgroup_id)
)
select
    a.tenant,
    a.kernel_name,
    min(a.image) filter (not a.later)               as image_before,
    min(a.image) filter (a.later)                   as image_after,
    nullif(regexp_extract(a.kernel_name, '^unknown@([0-9a-f]+)', 1), '') as build_id,
    coalesce(sum(a.calls) filter (not a.later), 0)::bigint as calls_before,
    coalesce(sum(a.calls) filter (a.later), 0)::bigint as calls_after,
    (sum(a.total_ns) filter (not a.later)
        / sum(a.calls) filter (not a.later))::bigint as before_ns,
    (sum(a.total_ns) filter (a.later) / sum(a.calls) filter (a.later))::bigint as after_ns,
    (after_ns / nullif(before_ns, 0))::double       as ratio,
    (coalesce(sum(a.total_ns) filter (a.later), 0)
        - coalesce(sum(a.total_ns * longer) filter (not a.later), 0))::bigint as change_ns
from named a
cross join bounds
group by a.tenant, a.kernel_name
order by abs(change_ns) desc, a.tenant, a.kernel_name
limit $limit
