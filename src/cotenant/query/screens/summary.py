"""One line per tenant, shown when a recording ends."""

from typing import Final

from cotenant.query.engine.answer import Answer
from cotenant.query.engine.session import Session

_SQL: Final = """
with cuda as (
    select
        tenant,
        container_id,
        sum(weight) filter (
            op in ('launch', 'graph_launch') and coalesce(result, 0) = 0
        )                                                      as launches,
        sum(bytes::hugeint * weight) filter (op = 'memcpy')    as copied_bytes,
        sum(duration_ns * weight) filter (op = 'sync')         as waited_ns
    from cuda_events
    join containers using (cgroup_id)
    group by tenant, container_id
),
kernels as (
    select
        tenant,
        container_id,
        kernel_name,
        sum(weight)                                            as times
    from cuda_events
    join containers using (cgroup_id)
    where op = 'launch'
    group by tenant, container_id, kernel_name
),
most_launched_kernels as (
    select
        tenant,
        container_id,
        arg_max(kernel_name, times)                            as most_launched
    from kernels
    group by tenant, container_id
),
nccl as (
    select
        tenant,
        container_id,
        sum(weight)                                            as nccl_calls
    from nccl_events
    join containers using (cgroup_id)
    group by tenant, container_id
)
select
    tenant,
    container_id,
    coalesce(launches, 0)::bigint                              as launches,
    least(coalesce(copied_bytes, 0), 9223372036854775807)::bigint as copied_bytes,
    coalesce(waited_ns, 0)::bigint                             as waited_ns,
    coalesce(nccl_calls, 0)::bigint                            as nccl_calls,
    most_launched
from cuda
full join nccl using (tenant, container_id)
left join most_launched_kernels using (tenant, container_id)
order by launches desc, tenant
"""


def summary(session: Session) -> Answer:
    """One row per tenant that used a GPU library, the busiest first."""
    return session.ask(_SQL)
