-- view: Each rank's call of each collective; equal turns of a communicator are one collective.
-- from: nccl_events, containers
select
    c.tenant,
    n.comm_hash,
    n.op,
    n.rank,
    n.nranks,
    n.bytes,
    n.timestamp_ns,
    n.duration_ns,
    row_number() over (
        partition by n.comm_hash, n.rank, n.op order by n.timestamp_ns
    )                                               as turn
from nccl_events n
join containers c using (cgroup_id)
where n.comm_hash is not null and n.rank is not null
  and n.op in (
      'AllReduce', 'Reduce', 'Broadcast', 'AllGather', 'ReduceScatter', 'AlltoAll', 'Gather',
      'Scatter'
  )
