-- view: Calls that had begun and not returned when each host was last looked at.
-- from: in_flight, totals, losses
with looks as (
    select node, timestamp_ns, true as found from in_flight
    union all
    select node, timestamp_ns, false from totals
    union all
    select node, timestamp_ns, false from losses
),
last as (
    select node, max(timestamp_ns) filter (found) as timestamp_ns
    from looks
    group by node
    -- A look that finds nothing leaves no row here, but is counted all the same.
    having max(timestamp_ns) filter (found) >= max(timestamp_ns) - 2000000000
)
select f.*
from in_flight f
join last l on l.node = f.node and l.timestamp_ns = f.timestamp_ns
