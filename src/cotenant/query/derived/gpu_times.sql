-- view: Device time of one operation per row, which stands for as many as its weight. Its source is
-- elapsed (the application timed it), solved (from many spans), or span: a share, by shape, of what
-- the others leave of its span, where all shares together are an upper bound. The operations of a
-- span take no more than the span.
-- from: gpu_work, spans, solved_times
with timed as (
    select
        w.*,
        s.span_ns,
        s.total_extent,
        t.base_ns + t.per_size_ns * coalesce(w.size, 0) as solved_ns,
        t.quality
    from gpu_work w
    left join spans s on s.span = w.span
    left join solved_times t
      on t.tenant = w.tenant and t.node = w.node and t.gpu is not distinct from w.gpu
     and t.kernel_name = w.kernel_name
     and (t.size is null or t.size = coalesce(w.size, 0))
     and t.solved
),
known as (
    select
        span,
        coalesce(sum(gpu_ns * weight), 0)           as elapsed_ns,
        coalesce(sum(solved_ns * weight) filter (gpu_ns is null), 0) as solved_ns,
        sum(extent * weight)                        as extent
    from timed
    where span is not null and coalesce(gpu_ns, solved_ns) is not null
    group by span
),
placed as (
    select
        t.*,
        least(
            t.solved_ns * greatest(t.span_ns - k.elapsed_ns, 0) / nullif(k.solved_ns, 0),
            t.solved_ns
        )                                           as fitted_ns,
        greatest(t.span_ns - coalesce(k.elapsed_ns + k.solved_ns, 0), 0)
            * t.extent / nullif(t.total_extent - coalesce(k.extent, 0), 0) as part_ns
    from timed t
    left join known k on k.span = t.span
)
select
    * exclude (gpu_ns, gpu_ns_source, part_ns, quality, solved_ns, fitted_ns, total_extent),
    round(coalesce(gpu_ns, fitted_ns, solved_ns, part_ns))::bigint as gpu_ns,
    case
        when gpu_ns is not null    then coalesce(gpu_ns_source, 'elapsed')
        when solved_ns is not null then 'solved'
        when part_ns is not null   then 'span'
    end                                             as gpu_ns_source,
    case when gpu_ns is null then quality end       as quality
from placed
