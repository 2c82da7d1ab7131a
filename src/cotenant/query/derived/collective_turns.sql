-- table: Each rank's call of each collective; equal turns of a communicator are one collective.
-- Turns are counted from the communicator's start; where that was not recorded, the calls nearest
-- in time are one collective. Communicators with shed, lost or unseen rows are left out.
-- from: nccl_events, containers, sessions, losses
with told as (
    from whole.nccl_events
    where comm_hash is not null
),
nodes as (
    select distinct comm_hash, node
    from told
),
recordings as (
    select n.comm_hash, list(s.started_ns) as starts
    from nodes n
    join sessions s using (node)
    group by n.comm_hash
),
calls as (
    select
        n.*,
        -- Calls between two recordings are unknown: each recording is counted by itself.
        coalesce(len(list_filter(r.starts, lambda s: s <= n.timestamp_ns)), 0) as recording
    from told n
    left join recordings r using (comm_hash)
    where n.rank is not null
),
members as (
    select
        comm_hash,
        recording,
        cgroup_id,
        node,
        min(timestamp_ns)                           as first_ns,
        max(timestamp_ns)                           as last_ns
    from calls
    group by all
),
lacking as (
    select m.comm_hash, m.recording
    from members m
    join whole.losses l using (cgroup_id)
    where l.family = 'nccl' and l.lost > 0
      and l.timestamp_ns between m.first_ns and m.last_ns + 2000000000
    union
    select m.comm_hash, m.recording
    from members m
    join whole.sharing s using (cgroup_id)
    join whole.blind h using (hole_of, node)
    where h.family = 'nccl' and h.from_ns <= m.last_ns and h.to_ns > m.first_ns
),
begun as (
    select comm_hash, recording
    from calls
    group by all
    having count(distinct rank) = count(distinct rank) filter (op like 'CommInit%')
),
groups as (
    select comm_hash, op, recording, min(rank) as first_rank
    from calls
    anti join lacking using (comm_hash, recording)
    where op in (
        'AllReduce', 'Reduce', 'Broadcast', 'AllGather', 'ReduceScatter', 'AlltoAll', 'Gather',
        'Scatter'
    )
    group by all
    having max(weight) = 1
),
counted as (
    select
        c.*,
        g.first_rank,
        row_number() over (
            partition by c.comm_hash, c.op, c.recording, c.rank order by c.timestamp_ns
        )                                           as place
    from calls c
    join groups g using (comm_hash, op, recording)
),
-- Few, of the many that there may be: their place says nothing.
adrift as materialized (
    select comm_hash, op, recording, rank, first_rank, place, timestamp_ns
    from counted
    anti join begun using (comm_hash, recording)
    where place <= 320
),
skews as (
    select
        a.comm_hash,
        a.op,
        a.recording,
        a.rank,
        b.place - a.place                           as ahead,
        avg(abs(a.timestamp_ns - b.timestamp_ns))   as skew_ns
    from adrift a
    join adrift b
      on b.comm_hash = a.comm_hash and b.op = a.op and b.recording = a.recording
     and b.rank = a.first_rank and b.place between a.place - 64 and a.place + 64
    where a.rank <> a.first_rank and a.place <= 256
    group by all
),
shifts as (
    select comm_hash, op, recording, rank, first(ahead order by skew_ns, abs(ahead)) as ahead
    from skews
    group by all
),
turns as (
    select
        c.*,
        c.place + coalesce(s.ahead, 0)              as nth,
        dense_rank() over (partition by c.comm_hash, c.op order by c.recording, nth) as turn,
        max(c.timestamp_ns) over (
            partition by c.comm_hash, c.op, c.recording, nth
        )                                           as began_ns
    from counted c
    left join shifts s using (comm_hash, op, recording, rank)
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
    t.turn,
    t.node,
    t.pid,
    t.stream
from turns t
join containers c using (cgroup_id)
-- A collective is in the time that is asked about if it began there, and then as a whole.
where exists (
    from nccl_events n
    where n.comm_hash = t.comm_hash and n.op = t.op and n.timestamp_ns = t.began_ns
)
