-- table: Each rank's call of each collective, of all times; equal turns of a communicator are one
-- collective. A rank arrives when its call returns, or the end of its group does: NCCL has queued the
-- kernel then. Turns are counted from the communicator's start; where that was not recorded, and after
-- each coverage gap, the calls nearest in time are one collective. A call within a gap, or of an
-- operation that was sampled, has no turn, and `left_out` is why.
-- from: nccl_events, containers, sessions, losses
with known as (
    from whole.nccl_events
    where comm_hash is not null
),
grouped as (
    select pid, node, tid, group_id, max(timestamp_ns + duration_ns) as queued_ns
    from whole.nccl_events
    where op = 'GroupEnd' and group_id is not null
    group by all
),
ranked as (
    select
        n.*,
        greatest(n.timestamp_ns + coalesce(n.duration_ns, 0), g.queued_ns) as arrived_ns
    from known n
    left join grouped g using (pid, node, tid, group_id)
    where n.rank is not null
),
members as (
    select
        comm_hash,
        cgroup_id,
        node,
        min(timestamp_ns)                           as first_ns,
        max(timestamp_ns)                           as last_ns
    from ranked
    group by all
),
-- What may hide a call of a rank, from when to when.
gaps as (
    select m.comm_hash, l.timestamp_ns - 2000000000 as from_ns, l.timestamp_ns as to_ns
    from members m
    join whole.losses l using (cgroup_id)
    where l.family = 'nccl' and l.lost > 0
      and l.timestamp_ns between m.first_ns and m.last_ns + 2000000000
    union
    select m.comm_hash, h.from_ns, h.to_ns
    from members m
    join whole.sharing s using (cgroup_id)
    join whole.blind h using (hole_of, node)
    where h.family = 'nccl' and h.from_ns <= m.last_ns and h.to_ns > m.first_ns
      and not h.of_new_processes
      -- An operation without a probe hides no call of another.
      and (not starts_with(h.reason, 'no probe for ') or exists (
          from ranked r
          where r.comm_hash = m.comm_hash and h.reason = 'no probe for ' || r.op
            and r.op not like 'Comm%'
      ))
),
-- Each recording is counted by itself, and so is what follows a gap.
cuts as (
    select comm_hash, list(at_ns) as cuts, list([from_ns, at_ns]) as spans
    from (
        select n.comm_hash, s.started_ns as at_ns, s.started_ns as from_ns
        from (select distinct comm_hash, node from known) n
        join sessions s using (node)
        union all
        select comm_hash, to_ns, from_ns from gaps
    )
    group by comm_hash
),
calls as (
    select
        n.*,
        coalesce(len(list_filter(k.cuts, lambda c: c <= n.timestamp_ns)), 0) as part,
        coalesce(len(list_filter(
            k.spans, lambda span: span[1] <= n.timestamp_ns and n.timestamp_ns < span[2]
        )), 0) > 0                                  as within_gap
    from ranked n
    left join cuts k using (comm_hash)
),
begun as (
    select comm_hash, part
    from calls
    group by all
    having count(distinct rank) = count(distinct rank) filter (op like 'CommInit%')
),
-- Calls that no row stands for: which communicator's they were is not known.
not_recorded as (
    select distinct cgroup_id, op, 1 as missing
    from whole.nccl_events
    where pid is null
),
collectives as (
    select
        * exclude missing,
        case
            when within_gap then 'coverage gap'
            when max(weight + coalesce(missing, 0)) over (partition by comm_hash, op, part) > 1
                then 'sampled'
        end                                         as left_out
    from calls
    left join not_recorded using (cgroup_id, op)
    where op in (
        'AllReduce', 'Reduce', 'Broadcast', 'AllGather', 'ReduceScatter', 'AlltoAll', 'Gather',
        'Scatter'
    )
),
counted as (
    select
        *,
        min(rank) over (partition by comm_hash, op, part) as first_rank,
        row_number() over (
            partition by comm_hash, op, part, rank order by timestamp_ns
        )                                           as place
    from collectives
    where left_out is null
),
-- Few, of the many that there may be: their place says nothing.
adrift as materialized (
    select comm_hash, op, part, rank, first_rank, place, timestamp_ns
    from counted
    anti join begun using (comm_hash, part)
    where place <= 320
),
skews as (
    select
        a.comm_hash,
        a.op,
        a.part,
        a.rank,
        b.place - a.place                           as ahead,
        avg(abs(a.timestamp_ns - b.timestamp_ns))   as skew_ns
    from adrift a
    join adrift b
      on b.comm_hash = a.comm_hash and b.op = a.op and b.part = a.part
     and b.rank = a.first_rank and b.place between a.place - 64 and a.place + 64
    where a.rank <> a.first_rank and a.place <= 256
    group by all
),
shifts as (
    select comm_hash, op, part, rank, first(ahead order by skew_ns, abs(ahead)) as ahead
    from skews
    group by all
),
turns as (
    select
        c.*,
        c.place + coalesce(s.ahead, 0)              as nth,
        dense_rank() over (partition by c.comm_hash, c.op order by c.part, nth) as turn,
        max(c.timestamp_ns) over (partition by c.comm_hash, c.op, c.part, nth) as began_ns
    from counted c
    left join shifts s using (comm_hash, op, part, rank)
    union all by name
    select *, timestamp_ns as began_ns
    from collectives
    where left_out is not null
)
select
    c.tenant,
    t.comm_hash,
    t.op,
    t.rank,
    t.nranks,
    t.bytes,
    t.timestamp_ns,
    t.duration_ns,
    t.arrived_ns,
    t.began_ns,
    t.turn,
    t.left_out,
    t.node,
    t.pid,
    t.stream
from turns t
join containers c using (cgroup_id)
