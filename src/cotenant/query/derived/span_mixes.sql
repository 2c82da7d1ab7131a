-- view: The operations of each mix of a span: what ran, in which size, how often.
with written as (
    -- A mix is written again for each tenant and hour, and is the same each time.
    select mix, min(timestamp_ns) as timestamp_ns, arg_min(cgroup_id, timestamp_ns) as cgroup_id
    from stored.span_mixes
    group by mix
)
select m.mix, m.kernel_name, m.size, m.count
from stored.span_mixes m
join written w
  on w.mix = m.mix and w.timestamp_ns = m.timestamp_ns and w.cgroup_id = m.cgroup_id
