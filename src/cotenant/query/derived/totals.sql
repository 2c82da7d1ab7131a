-- view: Exact counts per tenant and function and second, whatever happened to the rows; older ones per
-- minute, then per hour: `seconds` says how long a row is at most. It is of the samples from `first_ns`
-- to `timestamp_ns`, `most_ns` and `most_bytes` are of the second that had most.
-- from: total_minutes, total_hours
select
    *,
    timestamp_ns                                    as first_ns,
    sum_ns                                          as most_ns,
    bytes                                           as most_bytes,
    1::bigint                                       as seconds
from stored.totals
union all by name
select *, 60::bigint as seconds
from total_minutes
union all by name
select *, 3600::bigint as seconds
from total_hours
