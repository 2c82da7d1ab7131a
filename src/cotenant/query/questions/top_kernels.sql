-- title: Top kernels per tenant
-- question: Which kernels does each tenant spend its time in?
-- param: limit BIGINT = 20   how many rows to show
-- param: tenants TENANTS = null   tenants to show, set by --tenant; rows of all tenants are read
-- nodes: each calls, times
-- reading: `host_ns` is the time inside the launching calls: exact, or estimated from the remaining
-- rows where some were shed. `gpu_ns` is the time on the device, estimated, between `gpu_low_ns` and `gpu_high_ns` in 95
-- cases of 100; where it is not known, it is up to `gpu_high_ns`. `gpu_ns_source` says where it is known from:
-- see device_time. Rows are in order of `gpu_ns`, else of `gpu_low_ns`. In a window of
-- more than an hour, or none, calls are counted from rollups: to the second in the last 6 hours, to the
-- minute in the last 7 days, then to the hour. `gpu_ns` is known as long as spans are kept.
with calls as (
    from kernel_calls
    where ($tenants is null or list_contains($tenants, tenant))
),
times as (
    select
        tenant,
        kernel_name,
        gpu_ns_source,
        count(*)                                    as places,
        sum(gpu_ns)                                 as gpu_ns,
        sum(low_ns)                                 as low_ns,
        sum(high_ns)                                as high_ns,
        max(quality)                                as quality
    from kernel_times
    group by all
),
host as (
    select
        tenant,
        kernel_name,
        sum(calls)::bigint                          as launches,
        sum(total_ns)::bigint                       as host_ns,
        max(longest_ns)                             as slowest_ns
    from calls
    group by tenant, kernel_name
),
device as (
    select
        tenant,
        kernel_name,
        sum(gpu_ns)::bigint                         as gpu_ns,
        sum(low_ns)::bigint                         as gpu_low_ns,
        sum(high_ns)::bigint                        as gpu_high_ns,
        arg_max(gpu_ns_source, (places, gpu_ns_source)) as gpu_ns_source,
        max(quality)                                as quality
    from (
        select
            tenant,
            kernel_name,
            gpu_ns_source,
            sum(places)                             as places,
            sum(gpu_ns)                             as gpu_ns,
            sum(low_ns)                             as low_ns,
            sum(high_ns)                            as high_ns,
            max(quality)                            as quality
        from times
        group by all
    )
    group by tenant, kernel_name
)
select
    h.tenant,
    h.kernel_name,
    h.launches,
    d.gpu_ns,
    d.gpu_low_ns,
    d.gpu_high_ns,
    d.gpu_ns_source,
    d.quality,
    h.host_ns,
    h.slowest_ns
from host h
left join device d using (tenant, kernel_name)
order by coalesce(d.gpu_ns, d.gpu_low_ns, 0) desc, h.host_ns desc, tenant, kernel_name
limit $limit
