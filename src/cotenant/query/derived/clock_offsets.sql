-- view: How far the clock of each node of a communicator is ahead of the others', by its collectives:
-- all ranks are done with one at the same time. Where too few show that, its error is what the hosts
-- say of their clocks; NULL if they say nothing. Communicators of one node are not in it.
-- from: collective_turns, spans, sessions
with across as (
    select comm_hash
    from collective_turns
    group by comm_hash
    having count(distinct node) > 1
),
called as (
    from collective_turns
    semi join across using (comm_hash)
),
ended as (
    select t.comm_hash, t.op, t.turn, t.node, s.end_ns
    from called t
    asof join (
        select node, pid, stream, start_ns, end_ns
        from spans
        where proven and collectives > 0
    ) s
      on s.node = t.node and s.pid = t.pid and s.stream = t.stream
     and t.timestamp_ns + coalesce(t.duration_ns, 0) >= s.start_ns
    where t.timestamp_ns <= s.end_ns
    -- The end of a span shows when the last of its collectives was done.
    qualify t.timestamp_ns = max(t.timestamp_ns) over (
        partition by s.node, s.pid, s.stream, s.start_ns
    )
),
apart as (
    select
        *,
        end_ns - median(end_ns) over collectives    as ahead_ns
    from ended
    window collectives as (partition by comm_hash, op, turn)
    qualify min(node) over collectives <> max(node) over collectives
),
shown as (
    select
        comm_hash,
        node,
        ahead_ns,
        median(ahead_ns) over nodes                 as offset_ns
    from apart
    window nodes as (partition by comm_hash, node)
    qualify count(*) over nodes >= 20
),
measured as (
    select
        comm_hash,
        node,
        any_value(offset_ns)                        as offset_ns,
        -- Twice as far as half of the collectives are apart.
        2 * median(abs(ahead_ns - offset_ns))       as error_ns
    from shown
    group by comm_hash, node
),
stated as (
    select node, arg_max(clock_error_ns, started_ns) as clock_error_ns
    from sessions
    group by node
),
members as (
    select
        c.comm_hash,
        c.node,
        s.clock_error_ns,
        max(s.clock_error_ns) over nodes            as largest_ns,
        count(s.clock_error_ns) over nodes = count(*) over nodes as all_stated
    from (select distinct comm_hash, node from called) c
    left join stated s using (node)
    window nodes as (partition by c.comm_hash)
)
select
    m.comm_hash,
    m.node,
    coalesce(round(o.offset_ns), 0)::bigint         as offset_ns,
    case
        when o.comm_hash is not null then round(o.error_ns)
        when m.all_stated            then m.clock_error_ns + m.largest_ns
    end::bigint                                     as error_ns,
    case
        when o.comm_hash is not null then 'collectives'
        when m.all_stated            then 'clocks'
    end                                             as source
from members m
left join measured o using (comm_hash, node)
