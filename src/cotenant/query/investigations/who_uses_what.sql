-- title: Who uses what
-- question: Which share of CPU, GPU, disk and network does each tenant take?
-- reading: Exact counts, whatever happened to the rows. `cpus` is how many processors it kept busy
-- on average; `gpu_busy_ns` is the time in which it had work on a GPU. What a host's dashboard shows
-- is the sum of the column.
with window_s as (
    select (max(timestamp_ns) - min(timestamp_ns)) / 1e9 + 1 as seconds
    from totals
),
used as (
    select
        c.tenant,
        sum(t.sum_ns) filter (t.family = 'host' and t.function = 'oncpu') as cpu_ns,
        sum(t.bytes) filter (t.family = 'io' and t.function = 'read')     as disk_read_bytes,
        sum(t.bytes) filter (t.family = 'io' and t.function = 'write')    as disk_written_bytes,
        sum(t.bytes) filter (t.family = 'net' and t.function = 'send')    as net_sent_bytes,
        sum(t.bytes) filter (t.family = 'net' and t.function = 'recv')    as net_received_bytes
    from totals t
    join containers c using (cgroup_id)
    group by c.tenant
),
gpu as (
    select tenant, sum(busy_ns) as gpu_busy_ns
    from busy
    group by tenant
)
select
    tenant,
    round(cpu_ns / 1e9 / seconds, 3)                                      as cpus,
    round(100.0 * cpu_ns / nullif(sum(cpu_ns) over (), 0), 1)             as cpu_percent,
    gpu_busy_ns::bigint                                                   as gpu_busy_ns,
    round(100.0 * gpu_busy_ns / 1e9 / seconds, 1)                         as gpu_busy_percent,
    disk_read_bytes::bigint                                               as disk_read_bytes,
    disk_written_bytes::bigint                                            as disk_written_bytes,
    net_sent_bytes::bigint                                                as net_sent_bytes,
    net_received_bytes::bigint                                            as net_received_bytes
from used
full join gpu using (tenant)
cross join window_s
order by coalesce(gpu_busy_ns, 0) desc, coalesce(cpu_ns, 0) desc, tenant
