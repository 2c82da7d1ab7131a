-- view: Device time of one operation per row, which stands for as many as its weight. Its source is
-- elapsed (the application timed it), solved (from many spans), or span: a share of its span by
-- shape, where all shares of a span together are an upper bound.
-- from: gpu_work, spans, solved_times
with placed as (
    select
        w.*,
        s.span_ns,
        s.span_ns * w.extent / s.total_extent       as part_ns
    from gpu_work w
    left join spans s on s.span = w.span
)
select
    p.* exclude (gpu_ns, gpu_ns_source, part_ns),
    round(coalesce(
        p.gpu_ns, t.base_ns + t.per_size_ns * coalesce(p.size, 0), p.part_ns
    ))::bigint                                      as gpu_ns,
    case
        when p.gpu_ns is not null  then coalesce(p.gpu_ns_source, 'elapsed')
        when t.base_ns is not null then 'solved'
        when p.part_ns is not null then 'span'
    end                                             as gpu_ns_source,
    case when p.gpu_ns is null then t.quality end   as quality
from placed p
left join solved_times t
  on t.tenant = p.tenant and t.node = p.node and t.gpu is not distinct from p.gpu
 and t.kernel_name = p.kernel_name
 and (t.size is null or t.size = coalesce(p.size, 0))
 and t.solved
