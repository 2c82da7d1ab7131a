-- title: Use by team
-- question: How much of the GPUs and CPUs that it holds does each team use, over all nodes?
-- nodes: each gpus, ran, limited, members
-- reading: A team is a namespace, or the account of Slurm jobs; NULL is what has neither. A GPU is held
-- by a team while a tenant of the team has used it, for all the time that was recorded of its node.
-- `queued_share` is the part of that time with work of the team in flight: a team with a small one and many
-- GPUs can do with fewer. `cpus` is how many it kept busy on average; `cpus_limit` is the sum of its
-- tenants' limits, NULL if none has one. `tenant` is who of the team used GPUs most.
with gpus as (
    select
        j.team,
        g.node,
        g.gpu,
        -- Work of two of its tenants at a time is the work of one team.
        least(any_value(b.queued_ns), any_value(t.time_ns)) as queued_ns,
        any_value(t.time_ns)                        as time_ns,
        arg_max(j.tenant, (g.queued_ns, j.tenant))  as tenant
    from gpu_seconds g
    join jobs j using (cgroup_id)
    join looked_at t on t.node = g.node
    join queued_of_jobs b
      on b.kind = 'team' and b.name is not distinct from j.team and b.node = g.node
     and b.gpu is not distinct from g.gpu
    group by all
    having sum(g.queued_ns) > 0
),
on_gpus as (
    select
        team,
        count(*)                                    as gpus,
        sum(queued_ns)::bigint                      as gpu_queued_ns,
        sum(time_ns)::bigint                        as gpu_held_ns,
        arg_max(tenant, (queued_ns, tenant))        as tenant
    from gpus
    group by team
),
ran as (
    select
        j.team,
        sum(t.sum_ns / e.time_ns)                   as cpus
    from totals t
    join jobs j using (cgroup_id)
    join looked_at e on e.node = t.node
    where t.family = 'host' and t.function = 'oncpu'
    group by j.team
),
on_cpus as (
    select team, sum(cpus) as cpus
    from ran
    group by team
),
limited as (
    -- Of nested cgroups the outermost has the largest limit.
    select j.team, j.tenant, j.node, max(l.cpus) as cpus
    from (select cgroup_id, arg_max_null(cpus, timestamp_ns) as cpus from limits group by all) l
    join jobs j using (cgroup_id)
    group by all
),
limits_of as (
    select team, sum(cpus) as cpus_limit
    from limited
    group by team
),
members as (
    select distinct team, node, tenant
    from jobs
    where cgroup_id in (select cgroup_id from totals)
),
teams as (
    select team, count(distinct node) as nodes, count(distinct tenant) as tenants
    from members
    group by team
)
select
    t.team,
    t.nodes,
    t.tenants,
    coalesce(g.gpus, 0)                             as gpus,
    g.gpu_queued_ns,
    g.gpu_held_ns,
    g.gpu_queued_ns / nullif(g.gpu_held_ns, 0)      as queued_share,
    round(c.cpus, 3)                                as cpus,
    l.cpus_limit,
    g.tenant
from teams t
left join on_gpus g on g.team is not distinct from t.team
left join on_cpus c on c.team is not distinct from t.team
left join limits_of l on l.team is not distinct from t.team
order by g.gpu_held_ns desc nulls last, t.team
