-- view: The operations of each mix of a span: what ran, in which size, how often.
-- from: gpu_work
with grouped as (
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
select mix, kernel_name, size, count
from stored.span_mixes
union
select
    -- As in spans_of_rows.
    (sum(part) over (
        partition by tenant, node, pid, stream, recording, proof_ns
    ) % 4611686018427387847)::bigint                as mix,
    kernel_name,
    size,
    count
from grouped
