-- title: Who uses the GPU
-- question: How much of each GPU does each tenant use, and how is that known?
-- nodes: each found
-- reading: `work_ns` is what the tenant's operations would have taken alone; rows are in its order. `share`
-- divides each 100 ms of the GPU in proportion to work: all shares and `idle_share` sum to 1, which is
-- `time_ns`, the time that was recorded. GPU time is the length of the union of the tenant's intervals on
-- the device: `gpu_time_low_ns` and `gpu_time_high_ns` are proofs, `gpu_time_ns` is estimated, as `work_ns`
-- is; the truth is between the `ci` columns in 95 cases of 100 (of 400 virtual tenants: 387 and 390).
-- `source` is where the times of operations are known from: `waits` (its own), `imported` (a profiler's
-- file, see `cotenant import`), `events` (its own CUDA events), `borrowed` (the same kernels in another
-- tenant), `prior` (what other kernels take: mind the interval), `none`.
-- `queued_ns` is the time with work in flight, whatever the device did. A time of which no spans are
-- kept counts in it and in `gpu_time_high_ns` alone.
with found as (
    select
        tenant,
        gpu,
        share,
        work_ns,
        gpu_time_ns,
        gpu_time_ci_low_ns,
        gpu_time_ci_high_ns,
        source,
        queued_ns,
        gpu_time_low_ns,
        gpu_time_high_ns,
        work_ci_low_ns,
        work_ci_high_ns,
        source_tenant,
        idle_share,
        time_ns,
        statement                                   as gpu_time,
        node
    from gpu_use
)
select * exclude (node)
from found
order by coalesce(work_ns, gpu_time_low_ns) desc, gpu_time_low_ns desc, tenant, gpu, node
