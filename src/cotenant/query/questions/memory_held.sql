-- title: GPU memory over time
-- question: How much GPU memory does each tenant hold, and when?
-- param: step PERIOD = 10s   length of a window
-- param: limit BIGINT = 200   how many rows to show
-- nodes: each steps
-- reading: Physical bytes at the end of each window, and the peak within it. Without a row, nothing
-- changed in that window. NULL means unknown: a process was there before the recording.
with levels as (
    select
        *,
        lag(bytes) over (partition by tenant, node, gpu order by timestamp_ns) as before_bytes
    from held_memory
),
steps as (
    select
        tenant,
        gpu,
        (timestamp_ns // $step) * $step             as start_at_ns,
        arg_max_null(bytes, timestamp_ns)           as held_bytes,
        -- A window begins with what was held before.
        max(greatest(bytes, before_bytes))          as most_bytes,
        arg_max(allocations, timestamp_ns)          as allocations,
        node
    from levels
    group by all
    order by start_at_ns desc, held_bytes desc nulls last, tenant, gpu, node
    limit $limit
)
select * exclude (node)
from steps
order by start_at_ns desc, held_bytes desc nulls last, tenant, gpu, node
limit $limit
