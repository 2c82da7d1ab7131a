-- title: Network bytes and peers
-- question: How much does each tenant send and receive, and with whom?
-- param: limit BIGINT = 20   how many rows to show
-- reading: Bytes that the program passed to its sockets, each counted once. `peer` is NULL where the
-- socket does not know it: an unconnected datagram socket, or the unnamed end of a Unix one.
select
    c.tenant,
    e.family,
    if(e.family = 'unix', e.remote, regexp_replace(e.remote, ':[0-9]+$', '')) as peer,
    sum(e.bytes * e.weight) filter (e.op = 'send')::bigint as sent_bytes,
    sum(e.bytes * e.weight) filter (e.op = 'recv')::bigint as received_bytes,
    coalesce(sum(e.weight) filter (e.op = 'connect'), 0)::bigint as connected,
    coalesce(sum(e.weight) filter (e.op = 'accept'), 0)::bigint as accepted,
    max(e.duration_ns) filter (e.op = 'connect')    as slowest_connect_ns
from net_events e
join containers c using (cgroup_id)
group by all
order by coalesce(sent_bytes, 0) + coalesce(received_bytes, 0) desc, c.tenant, e.family, peer
limit $limit
