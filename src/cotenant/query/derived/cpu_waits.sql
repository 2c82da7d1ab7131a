-- view: Waits for a CPU: intervals in which a thread was runnable while another ran. `waited_ns` is
-- the length of one wait; `weight` is how many waits the row stands for. `thief_cgroup_id` had the
-- CPU for most of it, for `thief_ns`. Old recordings know only the last who had it.
-- from: host_events, containers, cpu_contention
with summed as (
    select distinct node from cpu_contention
)
select
    h.timestamp_ns                                  as waited_from_ns,
    h.duration_ns                                   as waited_ns,
    h.weight,
    h.pid,
    h.tid,
    h.cpu,
    h.cgroup_id,
    c.tenant,
    h.peer_cgroup_id,
    h.peer_pid,
    h.node,
    if(k.node is not null, h.thief_cgroup_id, h.peer_cgroup_id) as thief_cgroup_id,
    if(k.node is not null, h.thief_ns, h.duration_ns) as thief_ns
from host_events h
join containers c using (cgroup_id)
left join summed k on k.node = h.node
where h.duration_ns > 0
  and (h.op = 'runqueue' or (h.op = 'switch' and h.state = 'R'))
