-- title: Slowest collectives and the late rank
-- question: Which collectives were held up, and which rank came last?
-- param: limit BIGINT = 20   how many rows to show
-- param: tenants TENANTS = null   tenants to show, set by --tenant; rows of all tenants are read
-- nodes: communicators held_up
-- reading: A collective begins when its last rank arrives. `late` is how long after the median
-- rank the last one called; the others waited that long. Ranks on other hosts are not seen: if
-- `ranks_seen` is less than `nranks`, the late rank may be elsewhere.
with held_up as (
    select
        arg_max(tenant, (timestamp_ns, rank, tenant)) as tenant,
        op,
        comm_hash,
        turn,
        max(timestamp_ns)                           as began_at_ns,
        (max(timestamp_ns) - median(timestamp_ns))::bigint as late_ns,
        arg_max(rank, (timestamp_ns, rank))         as late_rank,
        count(*)                                    as ranks_seen,
        max(nranks)                                 as nranks,
        max(bytes)                                  as bytes,
        max(duration_ns)                            as slowest_ns
    from collective_turns
    group by comm_hash, op, turn
    having count(*) > 1 and ($tenants is null or list_has_any(list(tenant), $tenants))
    order by late_ns desc, comm_hash, op, turn
    limit $limit
)
from held_up
order by late_ns desc, comm_hash, op, turn
limit $limit
