-- title: Whose I/O delays whom
-- question: On one disk, whose requests are slower while another tenant's are under way?
-- param: device VARCHAR = null   only this disk, such as nvme0n1
-- param: limit BIGINT = 20   how many rows to show
-- param: tenants TENANTS = null   tenants to show, set by --tenant; rows of all tenants are read
-- nodes: each delays
-- reading: `beside_ns` is the mean duration of the tenant's requests while a request of the
-- neighbour was under way on the same disk, `alone_ns` that of requests with no neighbour. Look at
-- `neighbour_bytes`: bytes delay others, not the number of requests. The tenant `kernel` is the file
-- system's own journal.
with requests as (
    select
        e.node,
        e.device,
        c.tenant,
        e.timestamp_ns                              as start_ns,
        e.timestamp_ns + e.duration_ns              as end_ns,
        e.duration_ns,
        e.bytes * e.weight                          as bytes,
        e.weight,
        row_number() over ()                        as id
    from io_events e
    join containers c using (cgroup_id)
    where e.op in ('read', 'write') and ($device is null or e.device = $device)
),
met as (
    select v.id, v.node, v.device, v.tenant, o.tenant as neighbour, o.id as other, o.bytes
    from requests v
    join requests o
      on o.node = v.node and o.device = v.device and o.tenant <> v.tenant
     and o.start_ns < v.end_ns and o.end_ns > v.start_ns
),
-- A request of the neighbour counts once, beside however many it was.
moved as (
    select node, device, tenant, neighbour, sum(bytes) as bytes
    from (select distinct node, device, tenant, neighbour, other, bytes from met)
    group by all
),
alone as (
    select
        r.node,
        r.device,
        r.tenant,
        avg(r.duration_ns)                          as alone_ns,
        sum(r.weight)::bigint                       as requests
    from requests r
    anti join met m on m.id = r.id
    group by all
),
delays as (
    select
        r.tenant,
        m.neighbour,
        round(avg(r.duration_ns) / any_value(a.alone_ns), 2) as slowdown,
        sum(greatest(r.duration_ns - coalesce(a.alone_ns, r.duration_ns), 0) * r.weight)::bigint
                                                    as delayed_ns,
        avg(r.duration_ns)::bigint                  as beside_ns,
        any_value(a.alone_ns)::bigint               as alone_ns,
        any_value(b.bytes)::bigint                  as neighbour_bytes,
        sum(r.weight)::bigint                       as requests_beside,
        any_value(a.requests)                       as requests_alone,
        r.device,
        r.node
    from (select distinct id, neighbour from met) m
    join requests r using (id)
    join moved b
      on b.node = r.node and b.device = r.device and b.tenant = r.tenant
     and b.neighbour = m.neighbour
    left join alone a on a.node = r.node and a.device = r.device and a.tenant = r.tenant
    where ($tenants is null or list_contains($tenants, r.tenant))
    group by r.node, r.device, r.tenant, m.neighbour
)
from delays
order by delayed_ns desc, node, device, tenant, neighbour
limit $limit
