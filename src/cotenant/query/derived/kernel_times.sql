-- view: Device time per tenant and kernel, between which bounds it is, and where it is known from: added up
-- from what spans are made of, so no row is read but those that the application timed.
-- from: spans, span_mixes, solved_times, operation_times, cuda_events, containers
with queued as (
    -- Each kind of operation; it took no longer than the spans that have it.
    select
        s.tenant,
        s.node,
        s.gpu,
        m.kernel_name,
        coalesce(m.size, 0)                         as size,
        sum(s.spans * m.count)                      as launches,
        sum(s.span_ns)                              as most_ns
    from (
        select tenant, node, gpu, mix, count(*) as spans, sum(span_ns) as span_ns
        from spans
        group by all
    ) s
    join span_mixes m on m.mix = s.mix
    group by all
),
places as (
    -- Where a call's GPU is not known, it is the one of its process's spans.
    select node, pid, min(gpu) as gpu
    from spans
    group by node, pid
    having count(distinct gpu) = 1
),
timed as (
    select
        c.tenant,
        e.node,
        coalesce(e.gpu, p.gpu)                      as gpu,
        e.kernel_name,
        coalesce(case
            when e.op = 'launch' then
                try(e.grid_x::bigint * e.grid_y * e.grid_z * e.block_x * e.block_y * e.block_z)
            else e.bytes
        end, 0)                                     as size,
        coalesce(e.gpu_ns_source, 'elapsed')        as gpu_ns_source,
        sum(e.weight)                               as launches,
        sum(e.gpu_ns * e.weight)                    as gpu_ns
    from cuda_events e
    join containers c using (cgroup_id)
    left join places p on p.node = e.node and p.pid = e.pid
    where e.gpu_ns is not null and coalesce(e.result, 0) = 0
    group by all
),
-- Of a kind of which the application timed some, the others are as the rest of their kind.
rest as (
    select
        q.*,
        1 - least(coalesce(t.launches / sum(q.launches) over kinds, 0), 1) as untimed
    from queued q
    left join timed t
      on t.tenant = q.tenant and t.node = q.node and t.kernel_name = q.kernel_name
     and t.size = q.size and t.gpu is not distinct from q.gpu
    window kinds as (partition by q.tenant, q.node, q.gpu, q.kernel_name, q.size)
),
known as (
    select
        r.tenant,
        r.node,
        r.gpu,
        r.kernel_name,
        case
            when t.base_ns is not null then 'solved'
            else nullif(o.source, 'none')
        end                                         as gpu_ns_source,
        o.source_tenant,
        r.launches * r.untimed                      as launches,
        case
            when t.base_ns is not null
            then round(t.base_ns + t.per_size_ns * r.size) * r.launches * r.untimed
            when o.time_ns is not null
            then least(o.time_ns * r.launches, r.most_ns) * r.untimed
        end                                         as gpu_ns,
        case
            when t.base_ns is not null then gpu_ns * greatest(1 - 1.96 * t.quality, 0)
            when o.time_ns is null then 0
            else least(o.low_ns * r.launches, r.most_ns) * r.untimed
        end                                         as low_ns,
        case
            when t.base_ns is not null then gpu_ns * (1 + 1.96 * t.quality)
            else least(coalesce(o.high_ns * r.launches, r.most_ns), r.most_ns) * r.untimed
        end                                         as high_ns,
        t.quality
    from rest r
    left join solved_times t
      on t.tenant = r.tenant and t.node = r.node and t.gpu is not distinct from r.gpu
     and t.kernel_name = r.kernel_name and (t.size is null or t.size = r.size) and t.solved
    left join operation_times o
      on o.tenant = r.tenant and o.node = r.node and o.gpu is not distinct from r.gpu
     and o.kernel_name = r.kernel_name and o.size = r.size
    where r.untimed > 0
    union all
    select
        tenant, node, gpu, kernel_name, gpu_ns_source, null, launches, gpu_ns, gpu_ns, gpu_ns, null
    from timed
)
select
    tenant,
    node,
    gpu,
    kernel_name,
    gpu_ns_source,
    max(source_tenant)                              as source_tenant,
    round(sum(launches))::bigint                    as launches,
    round(sum(gpu_ns))::bigint                      as gpu_ns,
    round(sum(low_ns))::bigint                      as low_ns,
    round(sum(high_ns))::bigint                     as high_ns,
    round(sum(gpu_ns) / sum(launches))::bigint      as mean_ns,
    max(quality)                                    as quality
from known
group by all
