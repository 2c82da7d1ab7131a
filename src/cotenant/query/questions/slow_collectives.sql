-- title: Slowest collectives and the late rank
-- question: Which collectives were held up, and which rank came last?
-- param: limit BIGINT = 20   how many rows to show
-- param: tenants TENANTS = null   tenants to show, set by --tenant; rows of all tenants are read
-- nodes: communicators held_up
-- reading: A rank arrives when its call returns, or the end of its group does; a collective begins when
-- its last rank arrives. `late` is how long all other ranks waited for the last one alone. Ranks on other
-- hosts are not in it: if `ranks_seen` is less than `nranks`, the late rank may be elsewhere. Calls in a
-- coverage gap, and sampled ones, are left out: `late_ranks` has how many.
with held_up as (
    select
        arg_max(tenant, (arrived_ns, rank, tenant)) as tenant,
        op,
        comm_hash,
        turn,
        max(arrived_ns)                             as began_at_ns,
        max(arrived_ns) - max(arrived_ns, 2)[2]     as late_ns,
        arg_max(rank, (arrived_ns, rank))           as late_rank,
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
