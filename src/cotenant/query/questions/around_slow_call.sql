-- title: What the host did around a slow call
-- question: During the slowest CUDA waits and NCCL calls, what did CPU, disk and network do?
-- param: limit BIGINT = 10   how many calls to show
-- param: tenants TENANTS = null   tenants to show, set by --tenant; rows of all tenants are read
-- nodes: each found
-- reading: Each row is one call. `off_cpu_ns` is how long its thread did not run, which is normal for
-- a wait. `cpu_wait_ns` is how long it was runnable without a CPU, and `cpu_thief` the tenant that had
-- the CPU for most of that. `own_io_ns` is the tenant's longest disk request during the call, `other_io_bytes` what
-- other tenants moved on any disk. If all are zero, the cause is the GPU itself or another rank.
with calls as (
    select c.tenant, e.node, e.cgroup_id, e.pid, e.tid, e.api, e.timestamp_ns, e.duration_ns
    from cuda_events e
    join containers c using (cgroup_id)
    where e.op = 'sync' and e.duration_ns > 0
    union all
    select c.tenant, e.node, e.cgroup_id, e.pid, e.tid, e.api, e.timestamp_ns, e.duration_ns
    from nccl_events e
    join containers c using (cgroup_id)
    where e.duration_ns > 0
),
slow as (
    select *, row_number() over () as id
    from (
        select *
        from calls
        where ($tenants is null or list_contains($tenants, tenant))
        order by duration_ns desc, timestamp_ns, tid, node
        limit $limit
    )
),
off_cpu as (
    select s.id, sum(
        least(h.timestamp_ns + h.duration_ns, s.timestamp_ns + s.duration_ns)
        - greatest(h.timestamp_ns, s.timestamp_ns)
    )                                               as off_cpu_ns
    from slow s
    join host_events h
      on h.node = s.node and h.tid = s.tid and h.op = 'switch'
     and h.timestamp_ns < s.timestamp_ns + s.duration_ns
     and h.timestamp_ns + h.duration_ns > s.timestamp_ns
    group by s.id
),
waits as (
    select
        s.id,
        p.tenant                                    as thief,
        -- Of this thread only: a weight may include waits of other threads.
        sum(
            least(w.waited_from_ns + w.waited_ns, s.timestamp_ns + s.duration_ns)
            - greatest(w.waited_from_ns, s.timestamp_ns)
        )                                           as waited_ns,
        sum(w.thief_ns)                             as thief_ns
    from slow s
    join cpu_waits w
      on w.node = s.node and w.tid = s.tid
     and w.waited_from_ns < s.timestamp_ns + s.duration_ns
     and w.waited_from_ns + w.waited_ns > s.timestamp_ns
    left join containers p on p.cgroup_id = w.thief_cgroup_id
    group by s.id, p.tenant
),
starved as (
    select id, sum(waited_ns) as cpu_wait_ns, arg_max(thief, thief_ns) as cpu_thief
    from waits
    group by id
),
disk as (
    select
        s.id,
        max(e.duration_ns) filter (c.tenant = s.tenant) as own_io_ns,
        sum(e.bytes * e.weight) filter (c.tenant <> s.tenant) as other_io_bytes,
        arg_max(c.tenant, e.bytes) filter (c.tenant <> s.tenant) as other_io_tenant
    from slow s
    join io_events e
      on e.node = s.node and e.timestamp_ns < s.timestamp_ns + s.duration_ns
     and e.timestamp_ns + e.duration_ns > s.timestamp_ns
    join containers c on c.cgroup_id = e.cgroup_id
    group by s.id
),
wire as (
    select s.id, sum(e.weight) as retransmits
    from slow s
    join tcp_events e
      on e.node = s.node and e.op = 'retransmit' and e.cgroup_id = s.cgroup_id
     and e.timestamp_ns between s.timestamp_ns and s.timestamp_ns + s.duration_ns
    group by s.id
),
found as (
    select
        s.tenant,
        s.api,
        s.pid,
        s.tid,
        s.timestamp_ns                              as call_at_ns,
        s.duration_ns,
        coalesce(o.off_cpu_ns, 0)::bigint           as off_cpu_ns,
        coalesce(w.cpu_wait_ns, 0)::bigint          as cpu_wait_ns,
        w.cpu_thief,
        coalesce(d.own_io_ns, 0)::bigint            as own_io_ns,
        coalesce(d.other_io_bytes, 0)::bigint       as other_io_bytes,
        d.other_io_tenant,
        coalesce(r.retransmits, 0)::bigint          as retransmits,
        s.node
    from slow s
    left join off_cpu o using (id)
    left join starved w using (id)
    left join disk d using (id)
    left join wire r using (id)
)
select * exclude (node)
from found
order by duration_ns desc, call_at_ns, tid, node
limit $limit
