-- view: Per tenant, function and second; older ones per minute, then per hour: `seconds` says how
-- long a row is. No event is in two rows.
-- from: rollup_minutes, rollup_hours
select *, 1::bigint as seconds
from stored.rollups
union all by name
select *, 60::bigint as seconds
from rollup_minutes
union all by name
select *, 3600::bigint as seconds
from rollup_hours
