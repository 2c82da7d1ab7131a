-- title: Ranks that others wait for
-- question: Is one rank of a communicator late again and again, and on which node?
-- param: tenants TENANTS = null   tenants to show, set by --tenant; rows of all tenants are read
-- nodes: communicators ranks
-- reading: `last` is how often the rank was the last to call, out of `collectives`; by chance that
-- is one in `ranks_seen`. `late` is the median time by which it was later than the median rank.
-- Between nodes, clocks are first compared by when the collectives of the communicator were done;
-- `clock_error` is what remains unknown, NULL if nothing tells. A rank is called late or early only by
-- more than that: below it, `late` is NULL. Where the start of a communicator was not recorded, the
-- calls nearest in time are one collective: a rank that is late by more than half the period looks
-- early then. Communicators with shed or lost rows are left out.
with aligned as (
    select
        t.*,
        t.timestamp_ns - coalesce(o.offset_ns, 0)   as arrived_ns,
        -- Ranks of one node have one clock.
        case when o.comm_hash is null then 0 else o.error_ns end as clock_error_ns
    from collective_turns t
    left join clock_offsets o on o.comm_hash = t.comm_hash and o.node = t.node
),
arrivals as (
    select
        *,
        arrived_ns - median(arrived_ns) over (partition by comm_hash, op, turn) as late_ns,
        arrived_ns = max(arrived_ns) over (partition by comm_hash, op, turn) as is_last,
        count(*) over (partition by comm_hash, op, turn) as ranks
    from aligned
),
ranks as (
    select
        tenant,
        comm_hash,
        rank,
        count(*)                                    as collectives,
        count(*) filter (is_last)                   as last,
        max(ranks)                                  as ranks_seen,
        case when abs(median(late_ns)) >= max(clock_error_ns) then median(late_ns)::bigint end
                                                    as late_ns,
        sum(late_ns) filter (is_last)::bigint       as held_up_ns,
        node,
        max(clock_error_ns)                         as clock_error_ns
    from arrivals
    where ranks > 1 and ($tenants is null or list_contains($tenants, tenant))
    group by tenant, comm_hash, rank, node
)
from ranks
order by held_up_ns desc nulls last, tenant, comm_hash, rank, node
