-- title: NCCL cost per tenant
-- question: What do collectives cost each tenant, by operation and communicator?
-- param: limit BIGINT = 50   how many rows to show
-- reading: Times are those of the call on the host; the collective goes on after it returns. Bytes
-- are those of the whole operation: of an AllGather, ReduceScatter or AlltoAll, all ranks' parts. A
-- GroupEnd row is the call that launches the operations of its group.
select
    c.tenant,
    n.op,
    n.comm_name,
    n.comm_hash,
    max(n.nranks)                                   as nranks,
    sum(n.weight)::bigint                           as calls,
    sum(n.bytes * n.weight)::bigint                 as total_bytes,
    sum(n.duration_ns * n.weight)::bigint           as total_ns,
    (sum(n.duration_ns * n.weight) / sum(n.weight))::bigint as mean_ns,
    max(n.duration_ns)                              as slowest_ns
from nccl_events n
join containers c using (cgroup_id)
group by c.tenant, n.op, n.comm_name, n.comm_hash
order by total_ns desc, c.tenant, n.op, n.comm_name, n.comm_hash
limit $limit
