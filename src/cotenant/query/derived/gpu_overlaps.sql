-- view: Per second and pair of tenants on a GPU: both had work in flight; older ones per minute, then
-- per hour: `seconds` says how long a row is. Rows of the same time add up.
-- from: gpu_overlap_minutes, gpu_overlap_hours
select *, 1::bigint as seconds
from stored.gpu_overlaps
union all by name
select *, 60::bigint as seconds
from gpu_overlap_minutes
union all by name
select *, 3600::bigint as seconds
from gpu_overlap_hours
