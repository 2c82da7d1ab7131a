-- title: Device time per kernel
-- question: How long does each kernel run on the device, and how is that known?
-- param: limit BIGINT = 30   how many rows to show
-- param: tenants TENANTS = null   tenants to show, set by --tenant; rows of all tenants are read
-- nodes: each known
-- reading: A time is `elapsed` if the application measured it with its own CUDA events. It is `solved`
-- if it follows from many spans with different mixes of kernels, during which the tenant was alone on
-- the GPU; `quality` is its relative standard error, and `why` says why it could not be solved. Else it is of the catalogue
-- (operation_times): of the tenant's own `waits` or `events`, `borrowed` from `source_tenant`, or a `prior`,
-- what other kernels take. The true mean is within `mean_low_ns` and `mean_high_ns` in 95 cases of 100.
-- Where no time is known at all, the kernel took up to `mean_high_ns`.
with whys as (
    select tenant, node, gpu, kernel_name, min(reason) filter (not solved) as why
    from solved_times
    group by all
),
known as (
    select t.*, w.why
    from kernel_times t
    left join whys w
      on w.tenant = t.tenant and w.node = t.node and w.kernel_name = t.kernel_name
     and w.gpu is not distinct from t.gpu
    where ($tenants is null or list_contains($tenants, t.tenant))
)
select
    t.tenant,
    t.kernel_name,
    t.gpu_ns_source,
    t.launches,
    t.gpu_ns,
    t.mean_ns,
    (t.low_ns / nullif(t.launches, 0))::bigint      as mean_low_ns,
    (t.high_ns / nullif(t.launches, 0))::bigint     as mean_high_ns,
    t.quality,
    t.source_tenant,
    case when t.gpu_ns_source not in ('elapsed', 'solved') then t.why end as why
from known t
order by coalesce(t.gpu_ns, t.low_ns) desc, t.tenant, t.kernel_name, t.gpu_ns_source, t.node, t.gpu
limit $limit
