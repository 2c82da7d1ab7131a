-- title: Rightsize
-- question: What does each tenant use at the median, at the 99th percentile and at most, of its limits?
-- param: tenants TENANTS = null   tenants to show, set by --tenant; rows of all tenants are read
-- nodes: each each_period, newest, gpu_changes, cgroups, stops
-- reading: Percentiles are over seconds, idle ones included; what a thread used just before a second
-- is told with it, so a second has at most what the host's CPUs can do. What is older than six hours is
-- kept per minute, then per hour, with the second that had most in each cgroup: `period_ns` is the
-- longest period that percentiles are over, and a peak is of one second still, or of the peaks of a
-- tenant's cgroups together. Those of GPU memory, over all GPUs, begin
-- with its first byte. A limit is the last one, on the outermost cgroup that has it; NULL is none, or
-- not seen. `throttled_ns` is how long threads were stopped because the CPU quota was used up. With a
-- `cpus_p99` near `cpus_limit`, raise the limit; with a peak far below, it can be lowered.
with samples as (
    select
        t.node,
        t.first_ns,
        t.timestamp_ns,
        t.nominal,
        len(list_filter(s.starts, lambda start: start <= t.timestamp_ns)) as recording
    from (
        select node, first_ns, timestamp_ns, max(seconds) as nominal from totals group by all
    ) t
    left join (select node, list(started_ns) as starts from sessions group by node) s using (node)
),
begun as (
    select
        *,
        coalesce(
            lag(timestamp_ns) over (partition by node, recording order by timestamp_ns),
            -- The first has no beginning, and is left out.
            if(nominal > 1, first_ns - 1_000_000_000, null)
        )                                           as before_ns
    from samples
),
-- A sample that comes right after another, as at the end of a recording, is of the same second.
places as (
    select
        *,
        sum((before_ns is null or timestamp_ns - before_ns >= 500_000_000)::bigint)
            over (partition by node order by timestamp_ns) as period
    from begun
),
periods as (
    select
        node,
        period,
        max(nominal)                                as nominal,
        (max(timestamp_ns) - min(before_ns)) / 1e9  as seconds,
        -- So often it counts: once for each second.
        greatest(round(seconds), 1)::bigint         as times
    from places
    group by node, period
    having count(before_ns) = count(*)
),
hosts as (
    select node, max(try_cast(json_extract_string(notes, '$.cpus') as double)) as cpus
    from sessions
    group by node
),
used as (
    select
        c.tenant,
        t.node,
        p.period,
        max(p.nominal)                              as nominal,
        sum(t.sum_ns) filter (t.family = 'host' and t.function = 'oncpu') / 1e9 as cpus,
        sum(t.most_ns) filter (t.family = 'host' and t.function = 'oncpu') / 1e9 as most_cpus,
        sum(t.bytes) filter (t.family = 'io' and t.function in ('read', 'write')) as io_bytes,
        sum(t.most_bytes) filter (t.family = 'io' and t.function in ('read', 'write')) as most_bytes
    from totals t
    join containers c using (cgroup_id)
    join places p
      on p.node = t.node and p.first_ns = t.first_ns and p.timestamp_ns = t.timestamp_ns
    group by all
),
each_period as (
    select
        w.tenant,
        s.nominal,
        s.times,
        least(coalesce(u.cpus, 0) / s.seconds, h.cpus) as cpus,
        least(coalesce(if(u.nominal > 1, u.most_cpus, u.cpus / s.seconds), 0), h.cpus) as most_cpus,
        coalesce(u.io_bytes, 0) / s.seconds         as io_bytes,
        coalesce(if(u.nominal > 1, u.most_bytes, u.io_bytes / s.seconds), 0) as most_bytes
    from (select distinct tenant, node from used) w
    join periods s using (node)
    left join used u using (tenant, node, period)
    left join hosts h using (node)
    where s.seconds > 0
),
sizes as (
    select
        tenant,
        max(nominal) * 1_000_000_000                as period_ns,
        sum(times)                                  as times,
        round(max(most_cpus), 3)                    as cpus_peak,
        max(most_bytes)::bigint                     as io_bytes_peak
    from each_period
    group by tenant
),
cpu_ranks as (
    select
        tenant,
        cpus,
        sum(times) over (
            partition by tenant order by cpus rows unbounded preceding
        )                                           as up_to
    from each_period
),
io_ranks as (
    select
        tenant,
        io_bytes,
        sum(times) over (
            partition by tenant order by io_bytes rows unbounded preceding
        )                                           as up_to
    from each_period
),
-- A percentile is between the two seconds next to it, as quantile_cont has it.
cpu as (
    select
        tenant,
        any_value(0.5 * (s.times - 1))              as middle,
        any_value(0.99 * (s.times - 1))             as high,
        min(cpus) filter (up_to > floor(0.5 * (s.times - 1))) as below_middle,
        min(cpus) filter (up_to > ceil(0.5 * (s.times - 1))) as above_middle,
        min(cpus) filter (up_to > floor(0.99 * (s.times - 1))) as below_high,
        min(cpus) filter (up_to > ceil(0.99 * (s.times - 1))) as above_high
    from cpu_ranks
    join sizes s using (tenant)
    group by tenant
),
io as (
    select
        tenant,
        min(io_bytes) filter (up_to >= 0.5 * s.times)::bigint as io_bytes_p50,
        min(io_bytes) filter (up_to >= 0.99 * s.times)::bigint as io_bytes_p99
    from io_ranks
    join sizes s using (tenant)
    group by tenant
),
host as (
    select
        *,
        round(below_middle + (above_middle - below_middle) * (middle - floor(middle)), 3) as cpus_p50,
        round(below_high + (above_high - below_high) * (high - floor(high)), 3) as cpus_p99
    from sizes
    join cpu using (tenant)
    join io using (tenant)
),
newest as (
    select max(timestamp_ns) as newest_ns
    from (
        select timestamp_ns from totals
        union all
        select timestamp_ns from gpu_memory
        union all
        select timestamp_ns from limits
    )
),
ended as (
    select max(newest_ns) as end_ns
    from newest
),
gpu_changes as (
    select
        tenant,
        timestamp_ns,
        coalesce(bytes, 0) - coalesce(lag(bytes) over each_gpu, 0) as change,
        (bytes is null)::bigint
            - coalesce(lag((bytes is null)::bigint) over each_gpu, 0) as unknown
    from held_memory
    window each_gpu as (partition by tenant, node, gpu order by timestamp_ns)
),
gpu_levels as (
    select
        tenant,
        try_cast(sum(sum(change)) over so_far as bigint) as bytes,
        sum(sum(unknown)) over so_far               as unknown,
        coalesce(lead(timestamp_ns) over so_far, any_value(end_ns)) - timestamp_ns as held_ns
    from gpu_changes
    cross join ended
    group by tenant, timestamp_ns
    window so_far as (partition by tenant order by timestamp_ns)
),
gpu_ranks as (
    select
        tenant,
        bytes,
        sum(held_ns) over (partition by tenant order by bytes) as up_to_ns,
        sum(held_ns) over (partition by tenant)     as all_ns
    from gpu_levels
    where unknown = 0
),
gpu as (
    select
        tenant,
        min(bytes) filter (up_to_ns >= 0.5 * all_ns)::bigint as gpu_bytes_p50,
        min(bytes) filter (up_to_ns >= 0.99 * all_ns)::bigint as gpu_bytes_p99,
        max(bytes)::bigint                          as gpu_bytes_peak
    from gpu_ranks
    group by tenant
),
cgroups as (
    select
        c.cgroup_id,
        c.tenant,
        c.node,
        c.boot_id,
        c.hierarchy,
        c.cgroup_path,
        c.removed_ns,
        l.cpus,
        l.memory_bytes
    from containers c
    left join (
        select
            cgroup_id,
            arg_max_null(cpus, timestamp_ns)        as cpus,
            arg_max_null(memory_bytes, timestamp_ns) as memory_bytes
        from limits
        group by cgroup_id
    ) l using (cgroup_id)
),
there as (
    select
        * exclude (removed_ns),
        -- Infinity, for a cgroup that still exists.
        case when removed_ns <= end_ns then removed_ns else 9223372036854775807 end as until_ns,
        max(until_ns) over (partition by tenant) = 9223372036854775807 as lives
    from cgroups
    cross join ended
),
limited as (
    select t.*
    from there t
    where t.cpus is not null or t.memory_bytes is not null
    -- Of a tenant that is gone, what was there last.
    qualify t.until_ns = if(
        t.lives, 9223372036854775807, max(t.until_ns) over (partition by t.tenant)
    )
),
outermost as (
    select
        i.cgroup_id,
        any_value(i.tenant)                         as tenant,
        any_value(i.cpus)                           as cpus,
        any_value(i.memory_bytes)                   as memory_bytes,
        count(o.cpus)                               as cpus_above,
        count(o.memory_bytes)                       as memory_above
    from limited i
    left join limited o
      on o.tenant = i.tenant and o.node = i.node and o.boot_id = i.boot_id
     and o.hierarchy is not distinct from i.hierarchy
     and starts_with(i.cgroup_path, o.cgroup_path || '/')
    group by i.cgroup_id
),
allowed as (
    select
        tenant,
        sum(cpus) filter (cpus_above = 0)           as cpus_limit,
        sum(memory_bytes) filter (memory_above = 0)::bigint as memory_limit_bytes
    from outermost
    group by tenant
),
stops as (
    select c.tenant, sum(e.duration_ns)             as stopped_ns
    from host_events e
    join containers c using (cgroup_id)
    where e.op = 'throttled'
    group by c.tenant
),
stopped as (
    select tenant, sum(stopped_ns)::bigint          as throttled_ns
    from stops
    group by tenant
)
select
    tenant,
    h.cpus_p50,
    h.cpus_p99,
    h.cpus_peak,
    a.cpus_limit,
    s.throttled_ns,
    g.gpu_bytes_p50,
    g.gpu_bytes_p99,
    g.gpu_bytes_peak,
    h.io_bytes_p50,
    h.io_bytes_p99,
    h.io_bytes_peak,
    a.memory_limit_bytes,
    h.period_ns
from host h
full join gpu g using (tenant)
left join allowed a using (tenant)
left join stopped s using (tenant)
where ($tenants is null or list_contains($tenants, tenant))
order by coalesce(g.gpu_bytes_peak, 0) desc, coalesce(h.cpus_p99, 0) desc, tenant
