-- title: NCCL cost per tenant
-- question: What do collectives cost each tenant, by operation and communicator?
-- param: limit BIGINT = 50   how many rows to show
-- nodes: each cost
-- reading: Times are those of the call on the host; the collective goes on after it returns. Bytes
-- are those of the whole operation: of an AllGather, ReduceScatter or AlltoAll, all ranks' parts. A
-- GroupEnd row is the call that launches the operations of its group.
with cost as (
    select
        c.tenant,
        n.op,
        n.comm_name,
        n.comm_hash,
        max(n.nranks)                               as nranks,
        sum(n.weight)                               as calls,
        sum(n.bytes::hugeint * n.weight)            as total_bytes,
        sum(n.duration_ns * n.weight)               as total_ns,
        max(n.duration_ns)                          as slowest_ns
    from nccl_events n
    join containers c using (cgroup_id)
    group by c.tenant, n.op, n.comm_name, n.comm_hash
)
select
    n.tenant,
    n.op,
    n.comm_name,
    n.comm_hash,
    max(n.nranks)                                   as nranks,
    sum(n.calls)::bigint                            as calls,
    try_cast(sum(n.total_bytes) as bigint) as total_bytes,
    sum(n.total_ns)::bigint                         as total_ns,
    (sum(n.total_ns) / sum(n.calls))::bigint        as mean_ns,
    max(n.slowest_ns)                               as slowest_ns
from cost n
group by n.tenant, n.op, n.comm_name, n.comm_hash
order by total_ns desc, n.tenant, n.op, n.comm_name, n.comm_hash
limit $limit
