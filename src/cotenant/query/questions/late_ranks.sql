-- title: Ranks that others wait for
-- question: Is one rank of a communicator late again and again?
-- param: tenants TENANTS = null   tenants to show, set by --tenant; rows of all tenants are read
-- reading: `last` is how often the rank was the last to call, out of `collectives`; by chance that
-- is one in `ranks_seen`. `late` is the median time by which it was later than the median rank.
-- Where the start of a communicator was not recorded, the calls nearest in time are one collective: a
-- rank that is late by more than half the period looks early then. Communicators with shed or lost
-- rows are left out.
with arrivals as (
    select
        *,
        timestamp_ns - median(timestamp_ns) over (partition by comm_hash, op, turn) as late_ns,
        timestamp_ns = max(timestamp_ns) over (partition by comm_hash, op, turn) as is_last,
        count(*) over (partition by comm_hash, op, turn) as ranks
    from collective_turns
)
select
    tenant,
    comm_hash,
    rank,
    count(*)                                        as collectives,
    count(*) filter (is_last)                       as last,
    max(ranks)                                      as ranks_seen,
    median(late_ns)::bigint                         as late_ns,
    sum(late_ns) filter (is_last)::bigint           as held_up_ns
from arrivals
where ranks > 1 and ($tenants is null or list_contains($tenants, tenant))
group by tenant, comm_hash, rank
order by held_up_ns desc nulls last, tenant, comm_hash, rank
