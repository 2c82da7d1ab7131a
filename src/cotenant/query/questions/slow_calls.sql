-- title: Slowest CUDA calls
-- question: In which call does each tenant wait longest inside CUDA?
-- param: limit BIGINT = 20   how many rows to show
-- reading: Durations are those of the call on the host. A launch that takes milliseconds met a full
-- queue or lost its CPU; a wait that takes as long just waits for the GPU.
select
    c.tenant,
    e.api,
    sum(e.weight)::bigint                           as calls,
    (sum(e.duration_ns * e.weight) / sum(e.weight))::bigint as mean_ns,
    quantile_disc(e.duration_ns, 0.99)              as p99_ns,
    max(e.duration_ns)                              as slowest_ns,
    arg_max(e.timestamp_ns, e.duration_ns)          as slowest_at_ns,
    sum(e.duration_ns * e.weight)::bigint           as total_ns
from cuda_events e
join containers c using (cgroup_id)
group by c.tenant, e.api
order by p99_ns desc nulls last, c.tenant, e.api
limit $limit
