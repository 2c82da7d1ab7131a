-- view: For how long each tenant's threads on a node waited for a CPU, by who had it meanwhile (`thief`;
-- NULL: nobody known), and for how long that one ran there in all. On each CPU the union of a tenant's waits
-- counts, so nobody takes more than it ran.
-- from: cpu_contention, cpu_waits, totals, containers
with pairs as (
    select c.node, c.cgroup_id, c.peer_cgroup_id as thief_cgroup_id, c.waited_ns
    from cpu_contention c
    union all
    -- Old recordings: from the rows there are.
    select w.node, w.cgroup_id, w.thief_cgroup_id, w.thief_ns * w.weight
    from cpu_waits w
    where w.node not in (select node from cpu_contention)
),
summed as (
    select p.node, v.tenant, t.tenant as thief, sum(p.waited_ns) as waited_ns
    from pairs p
    join containers v on v.cgroup_id = p.cgroup_id
    left join containers t on t.cgroup_id = p.thief_cgroup_id
    group by all
),
ran as (
    select t.node, c.tenant, sum(t.sum_ns) as ran_ns
    from totals t
    join containers c using (cgroup_id)
    where t.family = 'host' and t.function = 'oncpu'
    group by t.node, c.tenant
)
select
    s.node,
    s.tenant,
    s.thief,
    -- Where waits of several cgroups of a tenant met, or of rows, the union is at most this.
    least(s.waited_ns, coalesce(r.ran_ns, s.waited_ns))::bigint as waited_ns,
    r.ran_ns::bigint                                as ran_ns
from summed s
left join ran r on r.node = s.node and r.tenant = s.thief
