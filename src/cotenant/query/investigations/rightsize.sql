-- title: Rightsize
-- question: What does each tenant use at the median, at the 99th percentile and at most, of its limits?
-- reading: Per second, seconds without any use included. A limit of NULL is none, or one that was
-- not seen. `throttled_ns` is how long threads stood still because the CPU limit was used up: with
-- a `cpus_p99` near `cpus_limit`, raise it; with a peak far below, it can be lowered.
with seconds as (
    select
        node,
        timestamp_ns,
        -- The first has no beginning, and is left out.
        (timestamp_ns - lag(timestamp_ns) over (partition by node order by timestamp_ns)) / 1e9
                                                    as seconds
    from (select distinct node, timestamp_ns from totals)
),
used as (
    select
        c.tenant,
        t.node,
        t.timestamp_ns,
        sum(t.sum_ns) filter (t.family = 'host' and t.function = 'oncpu') / 1e9 as cpus,
        sum(t.bytes) filter (t.family = 'io' and t.function in ('read', 'write')) as io_bytes
    from totals t
    join containers c using (cgroup_id)
    group by all
),
each_second as (
    select
        w.tenant,
        coalesce(u.cpus, 0) / s.seconds             as cpus,
        coalesce(u.io_bytes, 0) / s.seconds         as io_bytes
    from (select distinct tenant, node from used) w
    join seconds s using (node)
    left join used u using (tenant, node, timestamp_ns)
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
gpu as (
    select
        c.tenant,
        quantile_disc(m.bytes, 0.5)                 as gpu_bytes_p50,
        quantile_disc(m.bytes, 0.99)                as gpu_bytes_p99,
        max(m.bytes)                                as gpu_bytes_peak
    from gpu_memory m
    join containers c using (cgroup_id)
    where m.bytes is not null
    group by c.tenant
),
allowed as (
    select
        c.tenant,
        sum(l.cpus)                                 as cpus_limit,
        sum(l.memory_bytes)::bigint                 as memory_limit_bytes
    from (
        select cgroup_id, arg_max(cpus, timestamp_ns) as cpus,
            arg_max(memory_bytes, timestamp_ns) as memory_bytes
        from limits
        group by cgroup_id
    ) l
    join containers c using (cgroup_id)
    group by c.tenant
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
order by coalesce(g.gpu_bytes_peak, 0) desc, coalesce(h.cpus_p99, 0) desc, tenant
