-- title: Device time per kernel
-- question: How long does each kernel run on the device, and how is that known?
-- param: limit BIGINT = 30   how many rows to show
-- reading: A time is `elapsed` if the application measured it with its own CUDA events. It is `solved`
-- if it follows from many spans with different mixes of kernels; `quality` is its relative standard
-- error. Otherwise it is `span`, a share of its spans, and all shares of a span together are an upper
-- bound; `why` says why it could not be solved.
with whys as (
    select tenant, node, gpu, kernel_name, any_value(reason) filter (not solved) as why
    from solved_times
    group by all
)
select
    t.tenant,
    t.kernel_name,
    t.gpu_ns_source,
    t.launches,
    t.gpu_ns,
    t.mean_ns,
    t.quality,
    case when t.gpu_ns_source = 'span' then w.why end as why
from kernel_times t
left join whys w
  on w.tenant = t.tenant and w.node = t.node and w.kernel_name = t.kernel_name
 and w.gpu is not distinct from t.gpu
order by t.gpu_ns desc nulls last, t.tenant, t.kernel_name, t.gpu_ns_source, t.node, t.gpu
limit $limit
