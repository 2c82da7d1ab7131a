-- view: The operations of each mix of a span: what ran, in which size, how often.
-- from: gpu_work
with written as (
    -- A mix is written again for each tenant and hour, and is the same each time.
    select mix, min(timestamp_ns) as timestamp_ns, arg_min(cgroup_id, timestamp_ns) as cgroup_id
    from stored.span_mixes
    group by mix
),
grouped as (
    select
        tenant,
        node,
        pid,
        stream,
        recording,
        proof_ns,
        kernel_name,
        size,
        sum(weight)::bigint                         as count,
        sum(hash(kernel_name, size)::hugeint * weight) as part
    from gpu_work
    where without_spans(node, timestamp_ns)
    group by all
)
select m.mix, m.kernel_name, m.size, m.count
from stored.span_mixes m
join written w
  on w.mix = m.mix and w.timestamp_ns = m.timestamp_ns and w.cgroup_id = m.cgroup_id
union all
select distinct
    -- As in spans_of_rows.
    (sum(part) over (
        partition by tenant, node, pid, stream, recording, proof_ns
    ) % 4611686018427387847)::bigint                as mix,
    kernel_name,
    size,
    count
from grouped
