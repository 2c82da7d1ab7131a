-- title: Retransmits by tenant and peer
-- question: Whose connections lose segments, and to where?
-- param: limit BIGINT = 20   how many rows to show
-- nodes: each links
-- reading: A retransmit belongs to the tenant that owns the socket. If several tenants have many to
-- the same peer, the path to it is lossy; if one tenant has many to all peers, its own link is.
with sent as (
    select
        cgroup_id,
        trim(regexp_replace(remote, ':[0-9]+$', ''), '[]') as remote_ip,
        sum(bytes * weight)                         as bytes
    from net_events
    where op = 'send' and family like 'tcp%'
    group by all
),
lossy as (
    select
        cgroup_id,
        remote_ip,
        coalesce(sum(weight) filter (op = 'retransmit'), 0) as retransmits,
        coalesce(sum(weight) filter (op = 'reset_sent'), 0) as resets_sent,
        coalesce(sum(weight) filter (op = 'reset_received'), 0) as resets_received,
        avg(rtt_ns)                                 as rtt_ns,
        max(rtt_ns)                                 as max_rtt_ns,
        max(timestamp_ns) filter (op = 'retransmit') as last_at_ns
    from tcp_events
    group by all
),
links as (
    select c.tenant, l.*, s.bytes
    from lossy l
    join containers c using (cgroup_id)
    left join sent s using (cgroup_id, remote_ip)
)
select
    l.tenant,
    l.remote_ip                                     as peer,
    sum(l.retransmits)::bigint                      as retransmits,
    sum(l.bytes)::bigint                            as sent_bytes,
    round(1e6 * sum(l.retransmits) / nullif(sum(l.bytes), 0), 2) as per_megabyte,
    sum(l.resets_sent)::bigint                      as resets_sent,
    sum(l.resets_received)::bigint                  as resets_received,
    avg(l.rtt_ns)::bigint                           as rtt_ns,
    max(l.max_rtt_ns)                               as max_rtt_ns,
    max(l.last_at_ns)                               as last_at_ns
from links l
group by l.tenant, l.remote_ip
having sum(l.retransmits + l.resets_sent + l.resets_received) > 0
order by retransmits desc, resets_received desc, l.tenant, l.remote_ip
limit $limit
