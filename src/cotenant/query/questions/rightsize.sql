-- title: Rightsize
-- question: What does each tenant use at the median, at the 99th percentile and at most, of its limits?
-- param: tenants TENANTS = null   tenants to show, set by --tenant; rows of all tenants are read
-- reading: Percentiles are over seconds, idle ones included; what a thread used just before a second
-- is told with it, so a second has at most what the host's CPUs can do. Those of GPU memory, over all GPUs, begin
-- with its first byte. A limit is the last one, on the outermost cgroup that has it; NULL is none, or
-- not seen. `throttled_ns` is how long threads were stopped because the CPU quota was used up. With a
-- `cpus_p99` near `cpus_limit`, raise the limit; with a peak far below, it can be lowered.
with samples as (
    select
        node,
        timestamp_ns,
        -- The first has no beginning, and is left out.
        lag(timestamp_ns) over (partition by node order by timestamp_ns) as before_ns
    from (select distinct node, timestamp_ns from totals)
),
-- A sample that comes right after another, as at the end of a recording, is of the same second.
places as (
    select
        *,
        sum((before_ns is null or timestamp_ns - before_ns >= 500_000_000)::bigint)
            over (partition by node order by timestamp_ns) as second
    from samples
),
seconds as (
    select
        node,
        second,
        (max(timestamp_ns) - min(before_ns)) / 1e9  as seconds
    from places
    group by node, second
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
        p.second,
        sum(t.sum_ns) filter (t.family = 'host' and t.function = 'oncpu') / 1e9 as cpus,
        sum(t.bytes) filter (t.family = 'io' and t.function in ('read', 'write')) as io_bytes
    from totals t
    join containers c using (cgroup_id)
    join places p on p.node = t.node and p.timestamp_ns = t.timestamp_ns
    group by all
),
each_second as (
    select
        w.tenant,
        least(coalesce(u.cpus, 0) / s.seconds, h.cpus) as cpus,
        coalesce(u.io_bytes, 0) / s.seconds         as io_bytes
    from (select distinct tenant, node from used) w
    join seconds s using (node)
    left join used u using (tenant, node, second)
    left join hosts h using (node)
    where s.seconds > 0
),
host as (
    select
        tenant,
        round(quantile_cont(cpus, 0.5), 3)          as cpus_p50,
        round(quantile_cont(cpus, 0.99), 3)         as cpus_p99,
        round(max(cpus), 3)                         as cpus_peak,
        quantile_disc(io_bytes, 0.5)::bigint        as io_bytes_p50,
        quantile_disc(io_bytes, 0.99)::bigint       as io_bytes_p99,
        max(io_bytes)::bigint                       as io_bytes_peak
    from each_second
    group by tenant
),
ended as (
    select max(timestamp_ns) as end_ns
    from (
        select timestamp_ns from totals
        union all
        select timestamp_ns from gpu_memory
        union all
        select timestamp_ns from limits
    )
),
gpu_changes as (
    select
        tenant,
        timestamp_ns,
        coalesce(bytes, 0) - coalesce(lag(bytes) over each_gpu, 0) as change,
        (bytes is null)::bigint
            - coalesce(lag((bytes is null)::bigint) over each_gpu, 0) as unknown
    from held_memory
    window each_gpu as (partition by tenant, gpu order by timestamp_ns)
),
gpu_levels as (
    select
        tenant,
        sum(sum(change)) over so_far                as bytes,
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
there as (
    select
        * exclude (removed_ns),
        -- Infinity, for a cgroup that still exists.
        case when removed_ns <= end_ns then removed_ns else 9223372036854775807 end as until_ns,
        max(until_ns) over (partition by tenant) = 9223372036854775807 as lives
    from containers
    cross join ended
),
limited as (
    select t.*, l.cpus, l.memory_bytes
    from (
        select
            cgroup_id,
            arg_max_null(cpus, timestamp_ns)        as cpus,
            arg_max_null(memory_bytes, timestamp_ns) as memory_bytes
        from limits
        group by cgroup_id
    ) l
    join there t using (cgroup_id)
    where l.cpus is not null or l.memory_bytes is not null
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
stopped as (
    select c.tenant, sum(e.duration_ns)::bigint     as throttled_ns
    from host_events e
    join containers c using (cgroup_id)
    where e.op = 'throttled'
    group by c.tenant
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
    a.memory_limit_bytes
from host h
full join gpu g using (tenant)
left join allowed a using (tenant)
left join stopped s using (tenant)
where ($tenants is null or list_contains($tenants, tenant))
order by coalesce(g.gpu_bytes_peak, 0) desc, coalesce(h.cpus_p99, 0) desc, tenant
