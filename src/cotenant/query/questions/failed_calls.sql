-- title: Failed calls
-- question: Which CUDA and NCCL calls failed, for whom, and with what?
-- nodes: each failed
-- reading: `result` is a CUresult or cudaError_t (2 is out of memory, 700 an illegal address), or
-- an ncclResult_t. NULL means that the call never returned.
with calls as (
    select cgroup_id, 'cuda' as family, api, result, timestamp_ns, weight
    from cuda_events
    where result is distinct from 0
    union all
    select cgroup_id, 'nccl', api, result, timestamp_ns, weight
    from nccl_events
    where result is distinct from 0
),
failed as (
    select
        c.tenant,
        f.family,
        f.api,
        f.result,
        sum(f.weight)                               as calls,
        min(f.timestamp_ns)                         as first_ns,
        max(f.timestamp_ns)                         as last_ns
    from calls f
    join containers c using (cgroup_id)
    group by c.tenant, f.family, f.api, f.result
)
select
    f.tenant,
    f.family,
    f.api,
    f.result,
    sum(f.calls)::bigint                            as calls,
    min(f.first_ns)                                 as first_at_ns,
    max(f.last_ns)                                  as last_at_ns
from failed f
group by f.tenant, f.family, f.api, f.result
order by calls desc, f.tenant, f.family, f.api, f.result
