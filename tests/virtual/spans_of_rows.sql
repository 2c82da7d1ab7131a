with grouped as (
    select
        tenant,
        any_value(cgroup_id)                        as cgroup_id,
        node,
        any_value(gpu)                              as gpu,
        pid,
        stream,
        recording,
        proof_ns,
        any_value(proof_end_ns)                     as proof_end_ns,
        any_value(proof_api)                        as proof_api,
        any_value(proof_op)                         as proof_op,
        arg_min(context, timestamp_ns)              as context,
        any_value(span)                             as span,
        -- Of every operation, those included that were shed: what each is a share of.
        -- In 25ths: the sum of whole numbers does not depend on their order.
        sum(round(extent * 25)::hugeint * weight) / 25 as total_extent,
        min(timestamp_ns)                           as first_ns,
        max(queued_ns)                              as last_ns,
        sum(weight) filter (op in ('launch', 'graph_launch'))::bigint as launches,
        sum(weight) filter (op = 'memcpy')::bigint  as copies,
        -- A tenant chooses the sizes: a sum that does not fit is the largest number that does.
        least(coalesce(sum(bytes::hugeint * weight) filter (op = 'memcpy'), 0), 9223372036854775807)::bigint
            as copied_bytes,
        count(nccl_op)                              as collectives,
        -- Two spans with the same operations, in whatever order, have the same signature.
        (sum(hash(kernel_name, size)::hugeint) % 4611686018427387847)::bigint as signature,
        (sum(hash(kernel_name, size)::hugeint * weight) % 4611686018427387847)::bigint as mix,
        sum(weight - 1)::bigint                     as shed
    from gpu_work
    group by tenant, node, pid, stream, recording, proof_ns
),
placed as (
    select
        *,
        -- Of a process that moved from one tenant to another, each tenant has a queue of its own.
        lag(proof_end_ns) over (
            partition by tenant, node, pid, stream, recording order by proof_ns nulls last
        )                                           as before_ns,
        count(distinct stream) over (
            partition by node, pid, recording, proof_ns, proof_end_ns
        )                                           as streams
    from grouped
)
select
    tenant,
    cgroup_id,
    node,
    gpu,
    pid,
    stream,
    proof_ns,
    greatest(first_ns, coalesce(before_ns, first_ns)) as start_ns,
    -- A wait that returns at once says only that the work was done before it.
    greatest(start_ns, case
        when proof_ns is null               then last_ns
        when proof_end_ns - proof_ns < 10000 then proof_ns
        else proof_end_ns
    end)                                            as end_ns,
    end_ns - start_ns                               as span_ns,
    proof_ns is not null                            as proven,
    coalesce(proof_end_ns - proof_ns >= 10000, false) as waited,
    coalesce(proof_end_ns - proof_ns, 0)            as waited_ns,
    proof_api,
    -- How many streams the same call proved done: the last of them decided how long it took.
    streams,
    coalesce(launches, 0)                           as launches,
    coalesce(copies, 0)                             as copies,
    coalesce(copied_bytes, 0)                       as copied_bytes,
    collectives,
    signature,
    total_extent,
    span,
    start_ns                                        as timestamp_ns,
    context,
    case proof_op
        when 'sync'   then 'wait'
        when 'memcpy' then 'copy'
        else proof_op
    end                                             as closed_by,
    mix,
    shed,
    null::boolean                                   as lost
from placed
