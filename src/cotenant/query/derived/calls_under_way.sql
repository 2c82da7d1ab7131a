-- view: Calls that had begun and not returned at each host's last sample.
-- from: in_flight, totals, losses
with samples as (
    select node, timestamp_ns, true as found from in_flight
    union all
    select node, timestamp_ns, false from totals
    union all
    select node, timestamp_ns, false from losses
),
last as (
    select node, max(timestamp_ns) filter (found) as timestamp_ns
    from samples
    group by node
    -- A sample without calls has no row in `in_flight`, but rows in the other tables.
    having max(timestamp_ns) filter (found) >= max(timestamp_ns) - 2000000000
)
select f.*
from in_flight f
join last l on l.node = f.node and l.timestamp_ns = f.timestamp_ns
