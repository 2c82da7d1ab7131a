-- view: Device time of one operation per row, which stands for as many as its weight. Its source is
-- elapsed (the application timed it), solved (from many spans), or where operation_times has it from.
-- from: gpu_work, solved_times, operation_times
select
    w.* exclude (gpu_ns, gpu_ns_source),
    round(coalesce(w.gpu_ns, t.base_ns + t.per_size_ns * coalesce(w.size, 0), o.time_ns))::bigint
                                                    as gpu_ns,
    case
        when w.gpu_ns is not null  then coalesce(w.gpu_ns_source, 'elapsed')
        when t.base_ns is not null then 'solved'
        else o.source
    end                                             as gpu_ns_source,
    case when w.gpu_ns is null then t.quality end   as quality
from gpu_work w
left join solved_times t
  on t.tenant = w.tenant and t.node = w.node and t.gpu is not distinct from w.gpu
 and t.kernel_name = w.kernel_name
 and (t.size is null or t.size = coalesce(w.size, 0))
 and t.solved
left join operation_times o
  on o.tenant = w.tenant and o.node = w.node and o.gpu is not distinct from w.gpu
 and o.kernel_name = w.kernel_name and o.size = coalesce(w.size, 0)
