-- title: GPU memory over time
-- question: How much GPU memory does each tenant hold, and when?
-- param: step PERIOD = 10s   length of a window
-- param: limit BIGINT = 200   how many rows to show
-- reading: Physical bytes at the end of each window, and the most within it. NULL means that the
-- process ran before the recording and its memory is not known yet.
select
    c.tenant,
    m.gpu,
    (m.timestamp_ns // $step) * $step               as start_at_ns,
    arg_max(m.bytes, m.timestamp_ns)                as held_bytes,
    max(m.bytes)                                    as most_bytes,
    arg_max(m.allocations, m.timestamp_ns)          as allocations
from gpu_memory m
join containers c using (cgroup_id)
group by all
order by start_at_ns desc, held_bytes desc nulls last, c.tenant, m.gpu
limit $limit
