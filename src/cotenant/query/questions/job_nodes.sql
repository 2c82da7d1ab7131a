-- title: A job over its nodes
-- question: How evenly do the nodes of each job work?
-- param: limit BIGINT = 200   how many rows to show
-- nodes: communicators each_node, calls
-- reading: One row per job and node, for jobs on several nodes: of Slurm, a pod's workload, or the
-- tenants of one communicator. `queued_share` is the part of the time that was recorded of the node with work
-- of the job on its GPUs, averaged over them; `of_median` is it over the job's median node. A node far
-- below 1 holds its GPUs for nothing; `tenant` is whose work there is most of. See late_ranks for whom the others wait, slow_nodes for why.
with gpus as (
    select
        j.job,
        g.node,
        g.gpu,
        least(any_value(b.queued_ns), any_value(t.time_ns)) as queued_ns,
        any_value(t.time_ns)                        as time_ns,
        sum(g.launches)                             as launches,
        arg_max(j.tenant, (g.queued_ns, j.tenant))  as tenant
    from gpu_seconds g
    join jobs j using (cgroup_id)
    join looked_at t on t.node = g.node
    join queued_of_jobs b
      on b.kind = 'job' and b.name is not distinct from j.job and b.node = g.node
     and b.gpu is not distinct from g.gpu
    group by all
    having sum(g.queued_ns) > 0
),
calls as (
    select j.job, n.node, count(distinct n.rank) as ranks, sum(n.weight) as collectives
    from nccl_events n
    join jobs j using (cgroup_id)
    where n.comm_hash is not null
    group by all
),
each_node as (
    select
        job,
        node,
        count(*)                                    as gpus,
        sum(queued_ns)::bigint                      as queued_ns,
        sum(queued_ns) / sum(time_ns)               as queued_share,
        sum(launches)::bigint                       as launches,
        arg_max(tenant, (queued_ns, tenant))        as tenant
    from gpus
    group by job, node
)
select
    e.job,
    count(*) over jobs                              as nodes,
    e.node,
    e.tenant,
    e.gpus,
    c.ranks,
    e.queued_ns,
    e.queued_share,
    e.queued_share / nullif(median(e.queued_share) over jobs, 0) as of_median,
    e.launches,
    c.collectives::bigint                           as nccl_calls
from each_node e
left join calls c on c.job = e.job and c.node = e.node
window jobs as (partition by e.job)
qualify count(*) over jobs > 1
order by nodes desc, e.job, of_median, e.node
limit $limit
