-- title: Who uses what
-- question: Which share of CPU, GPU, disk and network does each tenant take?
-- param: tenants TENANTS = null   tenants to show, set by --tenant; rows of all tenants are read
-- nodes: each counts, gpus
-- reading: CPU, disk and network are exact, even if rows were shed or lost. `cpus` is how many
-- processors the tenant kept busy on average, from switch to switch of threads: the few microseconds of
-- a switch, which cpu.stat of a cgroup has, are no tenant's. `cpu_percent` is of all CPU time that tenants used.
-- `gpu_work_ns` is what its operations would have taken alone, `gpu_percent` its share of each GPU that
-- it used, in proportion to work, and `gpu_queued_ns` the time with work in flight: as in gpu_use, which
-- says how each is known. Where work is not known, the lower bound of its GPU time orders the rows. The sum
-- of another column is what a host's dashboard shows.
with seconds as (
    select node, time_ns / 1e9 as seconds
    from looked_at
),
counts as (
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
gpus as (
    select tenant, work_ns, gpu_time_low_ns, queued_ns, share
    from gpu_use
),
used as (
    select
        tenant,
        sum(cpu_ns)                                 as cpu_ns,
        sum(cpus)                                   as cpus,
        sum(disk_read_bytes)                        as disk_read_bytes,
        sum(disk_written_bytes)                     as disk_written_bytes,
        sum(net_sent_bytes)                         as net_sent_bytes,
        sum(net_received_bytes)                     as net_received_bytes
    from counts
    group by tenant
),
gpu as (
    select
        tenant,
        sum(work_ns)                                as work_ns,
        sum(queued_ns)                              as queued_ns,
        sum(coalesce(work_ns, gpu_time_low_ns))     as known_ns,
        avg(share)                                  as share
    from gpus
    group by tenant
)
select
    tenant,
    round(cpus, 3)                                                        as cpus,
    round(100.0 * cpu_ns / nullif(sum(cpu_ns) over (), 0), 1)             as cpu_percent,
    work_ns::bigint                                                       as gpu_work_ns,
    round(100.0 * share, 1)                                               as gpu_percent,
    queued_ns::bigint                                                     as gpu_queued_ns,
    disk_read_bytes::bigint                                               as disk_read_bytes,
    disk_written_bytes::bigint                                            as disk_written_bytes,
    net_sent_bytes::bigint                                                as net_sent_bytes,
    net_received_bytes::bigint                                            as net_received_bytes
from used
full join gpu using (tenant)
qualify ($tenants is null or list_contains($tenants, tenant))
order by coalesce(known_ns, 0) desc, coalesce(cpu_ns, 0) desc, tenant
