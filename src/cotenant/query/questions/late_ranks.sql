-- title: Ranks that others wait for
-- question: Is one rank of a communicator late again and again, and on which node?
-- param: tenants TENANTS = null   tenants to show, set by --tenant; rows of all tenants are read
-- nodes: communicators ranks
-- reading: A rank arrives at a collective when its call returns, or the end of its group does. `last` is
-- how often it was the last, out of `collectives`; by chance that is one in `ranks_seen`. `late` is the
-- median time by which it came after the median of the other ranks, `held_up` the time that all others
-- waited for it alone, added up. Between nodes, clocks are first compared by when the collectives of the
-- communicator were done; `clock_error` is what remains unknown, NULL if nothing shows it. A rank is late
-- or early only by more than that: below it, `late` is NULL. Where the start of a communicator was not
-- recorded, and after a coverage gap, the calls nearest in time are one collective: a rank that is late
-- by more than half the period looks early then. `left_out` calls are in no collective, because they lie
-- in a coverage gap or calls of their kind were sampled.
with aligned as (
    select
        t.* replace (t.arrived_ns - coalesce(o.offset_ns, 0) as arrived_ns),
        -- Ranks of one node have one clock.
        case when o.comm_hash is null then 0 else o.error_ns end as clock_error_ns
    from collective_turns t
    left join clock_offsets o on o.comm_hash = t.comm_hash and o.node = t.node
),
met as (
    select
        *,
        list_sort(list(arrived_ns) over collective) as arrivals,
        row_number() over (collective order by arrived_ns) as place
    from aligned
    window collective as (partition by comm_hash, op, turn)
),
arrivals as (
    select
        *,
        len(arrivals)                               as ranks,
        arrived_ns = arrivals[-1]                   as is_last,
        arrivals[-1] - arrivals[-2]                 as held_up_ns,
        -- The middle of the others.
        len(arrivals) // 2                          as low,
        (len(arrivals) + 1) // 2                    as high,
        (
            arrived_ns - arrivals[low + (place <= low)::bigint]
            + (arrived_ns - arrivals[high + (place <= high)::bigint])
        ) / 2                                       as late_ns
    from met
    where len(arrivals) > 1
),
uncounted as (
    select c.comm_hash, c.rank, c.node, count(*) as calls, string_agg(distinct c.left_out, ', ') as why
    from collective_calls c
    semi join nccl_events n
      on n.comm_hash = c.comm_hash and n.op = c.op and n.timestamp_ns = c.timestamp_ns
    where c.turn is null
    group by all
),
ranks as (
    select
        a.tenant,
        a.comm_hash,
        a.rank,
        count(*)                                    as collectives,
        count(*) filter (is_last)                   as last,
        max(ranks)                                  as ranks_seen,
        case when abs(median(late_ns)) >= max(clock_error_ns) then median(late_ns)::bigint end
                                                    as late_ns,
        sum(held_up_ns) filter (is_last)::bigint    as held_up_ns,
        coalesce(any_value(u.calls), 0)             as left_out,
        any_value(u.why)                            as left_out_because,
        a.node,
        max(clock_error_ns)                         as clock_error_ns
    from arrivals a
    left join uncounted u on u.comm_hash = a.comm_hash and u.rank = a.rank and u.node = a.node
    where $tenants is null or list_contains($tenants, a.tenant)
    group by a.tenant, a.comm_hash, a.rank, a.node
)
from ranks
order by held_up_ns desc nulls last, tenant, comm_hash, rank, node
