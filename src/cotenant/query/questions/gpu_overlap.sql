-- title: Who shares a GPU with whom
-- question: For each pair of tenants on a GPU, how long did both have work on it?
-- nodes: each pairs
-- reading: `queued_share` is the part of the time in which the tenant itself had work in flight. Before the oldest spans that are kept, both
-- are added up from `gpu_overlaps` and `gpu_seconds`. Sharing a GPU is not yet being slowed: see the
-- question interference.
with pairs as (
    from shared_time
)
select
    tenant,
    other,
    gpu,
    overlap_ns,
    queued_ns,
    share                                           as queued_share
from pairs
order by overlap_ns desc, tenant, other, gpu, node
