-- view: Per second, tenant and GPU; older ones per minute, then per hour: `seconds` says how long a
-- row is. Rows of the same time add up; memory is the largest of theirs.
-- from: gpu_minutes, gpu_hours
select *, 1::bigint as seconds
from stored.gpu_seconds
union all by name
select *, 60::bigint as seconds
from gpu_minutes
union all by name
select *, 3600::bigint as seconds
from gpu_hours
