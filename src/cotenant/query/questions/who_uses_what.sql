-- title: Who uses what
-- question: Which share of CPU, GPU, disk and network does each tenant take?
-- param: tenants TENANTS = null   tenants to show, set by --tenant; rows of all tenants are read
-- reading: CPU, disk and network are exact, even if rows were shed or lost. `cpus` is how many
-- processors the tenant kept busy on average. `gpu_busy_ns` is the time in which it had work on a GPU,
-- from the rows there are. The sum of a column is what a host's dashboard shows.
with seconds as (
    -- The time between two recordings counts for no tenant.
    select node, sum(seconds) as seconds
    from (
        select
            t.node,
            (max(t.timestamp_ns) - min(t.timestamp_ns)) / 1e9 + 1 as seconds
        from (select distinct node, timestamp_ns from totals) t
        left join (select node, list(started_ns) as starts from sessions group by node) s
          using (node)
        group by t.node, len(list_filter(s.starts, lambda start: start <= t.timestamp_ns))
    )
    group by node
),
used as (
    select
        c.tenant,
        sum(t.sum_ns) filter (t.family = 'host' and t.function = 'oncpu') as cpu_ns,
        sum(t.sum_ns / s.seconds / 1e9) filter (t.family = 'host' and t.function = 'oncpu') as cpus,
        sum(t.bytes) filter (t.family = 'io' and t.function = 'read')     as disk_read_bytes,
        sum(t.bytes) filter (t.family = 'io' and t.function = 'write')    as disk_written_bytes,
        sum(t.bytes) filter (t.family = 'net' and t.function = 'send')    as net_sent_bytes,
        sum(t.bytes) filter (t.family = 'net' and t.function = 'recv')    as net_received_bytes
    from totals t
    join containers c using (cgroup_id)
    join seconds s on s.node = t.node
    group by c.tenant
),
gpu as (
    select
        b.tenant,
        sum(b.busy_ns)                              as gpu_busy_ns,
        sum(b.busy_ns / s.seconds / 1e9)            as gpus
    from busy b
    left join seconds s using (node)
    group by b.tenant
)
select
    tenant,
    round(cpus, 3)                                                        as cpus,
    round(100.0 * cpu_ns / nullif(sum(cpu_ns) over (), 0), 1)             as cpu_percent,
    gpu_busy_ns::bigint                                                   as gpu_busy_ns,
    round(100.0 * gpus, 1)                                                as gpu_busy_percent,
    disk_read_bytes::bigint                                               as disk_read_bytes,
    disk_written_bytes::bigint                                            as disk_written_bytes,
    net_sent_bytes::bigint                                                as net_sent_bytes,
    net_received_bytes::bigint                                            as net_received_bytes
from used
full join gpu using (tenant)
qualify ($tenants is null or list_contains($tenants, tenant))
order by coalesce(gpu_busy_ns, 0) desc, coalesce(cpu_ns, 0) desc, tenant
