-- view: Device time per tenant and kernel, and where it is known from: added up from what spans are
-- made of, so no row is read but those that the application timed.
-- from: spans, span_mixes, solved_times, cuda_events, containers
with queued as (
    -- Each kind of operation, and its share of the spans that are proven done.
    select
        s.tenant,
        s.node,
        s.gpu,
        m.kernel_name,
        coalesce(m.size, 0)                         as size,
        s.proven,
        sum(s.spans * m.count)                      as launches,
        -- Its weight in its span, as in gpu_work.
        sum(s.ns_per_extent * m.count * greatest(
            case when m.kernel_name like '[%' then m.size / 25 else m.size end, 1
        ))                                          as part_ns
    from (
        select
            tenant,
            node,
            gpu,
            mix,
            proven,
            count(*)                                as spans,
            sum(span_ns / total_extent)             as ns_per_extent
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
            when r.proven              then 'span'
        end                                         as gpu_ns_source,
        r.launches * r.untimed                      as launches,
        case
            when t.base_ns is not null
            then round(t.base_ns + t.per_size_ns * r.size) * r.launches * r.untimed
            when r.proven then r.part_ns * r.untimed
        end                                         as gpu_ns,
        t.quality
    from rest r
    left join solved_times t
      on t.tenant = r.tenant and t.node = r.node and t.gpu is not distinct from r.gpu
     and t.kernel_name = r.kernel_name and (t.size is null or t.size = r.size) and t.solved
    where r.untimed > 0
    union all
    select tenant, node, gpu, kernel_name, gpu_ns_source, launches, gpu_ns, null
    from timed
)
select
    tenant,
    node,
    gpu,
    kernel_name,
    gpu_ns_source,
    round(sum(launches))::bigint                    as launches,
    round(sum(gpu_ns))::bigint                      as gpu_ns,
    round(sum(gpu_ns) / sum(launches))::bigint      as mean_ns,
    max(quality)                                    as quality
from known
group by all
