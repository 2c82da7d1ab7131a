-- view: Waits for a CPU: intervals in which a thread was runnable while another ran, and whose that
-- other was. `waited_ns` is the length of one wait; `weight` is how many waits the row stands for.
-- from: host_events, containers
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
    h.node
from host_events h
join containers c using (cgroup_id)
where h.duration_ns > 0
  and (h.op = 'runqueue' or (h.op = 'switch' and h.state = 'R'))
