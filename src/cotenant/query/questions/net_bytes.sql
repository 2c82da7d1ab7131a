-- title: Network bytes and peers
-- question: How much does each tenant send and receive, and with whom?
-- param: limit BIGINT = 20   how many rows to show
-- nodes: each moved
-- reading: Bytes that the program passed to its sockets, each counted once. `peer` is NULL where the
-- socket does not know it: an unconnected datagram socket, or the unnamed end of a Unix one. Messages
-- over Unix sockets are counted in `totals` alone, unless `record --net-rows all` asked for rows.
with moved as (
    select
        c.tenant,
        e.family,
        if(e.family = 'unix', e.remote, regexp_replace(e.remote, ':[0-9]+$', '')) as peer,
        sum(e.bytes * e.weight) filter (e.op = 'send') as sent_bytes,
        sum(e.bytes * e.weight) filter (e.op = 'recv') as received_bytes,
        sum(e.weight) filter (e.op = 'connect')     as connected,
        sum(e.weight) filter (e.op = 'accept')      as accepted,
        max(e.duration_ns) filter (e.op = 'connect') as slowest_connect_ns
    from net_events e
    join containers c using (cgroup_id)
    group by all
)
select
    m.tenant,
    m.family,
    m.peer,
    sum(m.sent_bytes)::bigint                       as sent_bytes,
    sum(m.received_bytes)::bigint                   as received_bytes,
    coalesce(sum(m.connected), 0)::bigint           as connected,
    coalesce(sum(m.accepted), 0)::bigint            as accepted,
    max(m.slowest_connect_ns)                       as slowest_connect_ns
from moved m
group by m.tenant, m.family, m.peer
order by
    coalesce(sum(m.sent_bytes), 0) + coalesce(sum(m.received_bytes), 0) desc, m.tenant, m.family, m.peer
limit $limit
