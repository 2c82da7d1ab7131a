-- title: Before and after
-- question: What changed between two times, per tenant, kernel, image and build?
-- param: at TIME = null   where the second window begins; by default the middle of the recording
-- param: limit BIGINT = 30   how many rows to show
-- reading: `before` and `after` are the mean durations of a call on the host in each window. A kernel
-- without `before` is new. An `image` or `build_id` that differs is a code change, and the rows that
-- changed with it are its effect. With `--against DIR` the whole of that store is `before`, and the
-- store asked is `after`; `change_ns` is then as if both had been recorded for as long.
with bounds as (
    select coalesce($at, ((min(timestamp_ns) + max(timestamp_ns)) / 2)::bigint) as at_ns
    from cuda_events
),
calls as (
    select
        c.tenant,
        e.kernel_name,
        c.image,
        nullif(regexp_extract(e.kernel_name, '^unknown@([0-9a-f]+)', 1), '') as build_id,
        e.timestamp_ns >= b.at_ns                   as later,
        e.duration_ns,
        e.weight
    from cuda_events e
    join containers c using (cgroup_id)
    cross join bounds b
)
select
    tenant,
    kernel_name,
    any_value(image) filter (not later)             as image_before,
    any_value(image) filter (later)                 as image_after,
    any_value(build_id)                             as build_id,
    coalesce(sum(weight) filter (not later), 0)::bigint as calls_before,
    coalesce(sum(weight) filter (later), 0)::bigint as calls_after,
    (sum(duration_ns * weight) filter (not later)
        / sum(weight) filter (not later))::bigint   as before_ns,
    (sum(duration_ns * weight) filter (later) / sum(weight) filter (later))::bigint as after_ns,
    (after_ns / nullif(before_ns, 0))::double       as ratio,
    (coalesce(sum(duration_ns * weight) filter (later), 0)
        - coalesce(sum(duration_ns * weight) filter (not later), 0))::bigint as change_ns
from calls
group by tenant, kernel_name
order by abs(change_ns) desc, tenant, kernel_name
limit $limit
