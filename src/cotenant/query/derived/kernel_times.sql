-- view: Device time per tenant and kernel, and where it is known from.
-- from: gpu_times
select
    tenant,
    node,
    gpu,
    kernel_name,
    gpu_ns_source,
    sum(weight)::bigint                             as launches,
    sum(gpu_ns * weight)::bigint                    as gpu_ns,
    (sum(gpu_ns * weight) / sum(weight))::bigint    as mean_ns,
    max(quality)                                    as quality
from gpu_times
group by all
