-- view: Each rank's call of each collective that began in the time that is asked about, as a whole.
-- from: collective_calls, nccl_events
select c.*
from collective_calls c
where c.turn is not null and exists (
    from nccl_events n
    where n.comm_hash = c.comm_hash and n.op = c.op and n.timestamp_ns = c.began_ns
)
