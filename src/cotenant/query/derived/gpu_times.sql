-- view: Device time of one operation per row, which stands for as many as its weight. Its source is
-- elapsed (the application timed it), solved (from many spans), or where operation_times has it from.
-- The operations of a span take no more than the span.
-- from: gpu_work, spans, solved_times, operation_times
with timed as (
    select
        w.*,
        s.span_ns,
        t.base_ns + t.per_size_ns * coalesce(w.size, 0) as solved_ns,
        t.quality,
        coalesce(solved_ns, o.time_ns)              as usual_ns,
        case when solved_ns is not null then 'solved' else o.source end as usual_source
    from gpu_work w
    left join spans s on s.span = w.span
    left join solved_times t
      on t.tenant = w.tenant and t.node = w.node and t.gpu is not distinct from w.gpu
     and t.kernel_name = w.kernel_name
     and (t.size is null or t.size = coalesce(w.size, 0))
     and t.solved
    left join operation_times o
      on o.tenant = w.tenant and o.node = w.node and o.gpu is not distinct from w.gpu
     and o.kernel_name = w.kernel_name and o.size = coalesce(w.size, 0)
),
known as (
    select
        span,
        coalesce(sum(gpu_ns * weight), 0)           as elapsed_ns,
        coalesce(sum(usual_ns * weight) filter (gpu_ns is null), 0) as usual_ns
    from timed
    where span is not null and coalesce(gpu_ns, usual_ns) is not null
    group by span
),
placed as (
    select
        t.*,
        -- Of a span of unknown length no part is too long.
        t.usual_ns
            * least(coalesce(greatest(t.span_ns - k.elapsed_ns, 0) / nullif(k.usual_ns, 0), 1), 1)
                                                    as fitted_ns
    from timed t
    left join known k on k.span = t.span
)
select
    * exclude (gpu_ns, gpu_ns_source, quality, solved_ns, usual_ns, usual_source, fitted_ns),
    round(coalesce(gpu_ns, fitted_ns))::bigint      as gpu_ns,
    case
        when gpu_ns is not null    then coalesce(gpu_ns_source, 'elapsed')
        when fitted_ns is not null then usual_source
    end                                             as gpu_ns_source,
    case when gpu_ns is null and usual_source = 'solved' then quality end as quality
from placed
