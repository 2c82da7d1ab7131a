-- view: What each cgroup is a part of, over all nodes: its job, and its team. The job is Slurm's, the
-- workload of a pod, a tenant of an operator's rule, or all tenants of a communicator over several
-- nodes; else the tenant. The team is the namespace, or the account of the Slurm job.
-- from: containers, nccl_events
with across as (
    select comm_hash, max(nranks) as nranks
    from nccl_events
    where comm_hash is not null
    group by comm_hash
    having count(distinct node) > 1
),
joined as (
    -- The largest has all ranks in it, where there are others of parts of them.
    select n.cgroup_id, arg_max(comm_hash, a.nranks) as comm_hash
    from nccl_events n
    join across a using (comm_hash)
    group by n.cgroup_id
),
labelled as (
    select
        *,
        case when json_valid(labels) then labels end as known
    from containers
),
workloads as (
    select
        * exclude (known),
        coalesce(
            known ->> '$."training.kubeflow.org/job-name"',
            known ->> '$."leaderworkerset.sigs.k8s.io/name"',
            known ->> '$."jobset.sigs.k8s.io/jobset-name"',
            known ->> '$."ray.io/cluster"',
            known ->> '$."batch.kubernetes.io/job-name"',
            known ->> '$."job-name"',
            -- Of a Deployment, without the hash of its ReplicaSet.
            regexp_replace(
                regexp_replace(known ->> '$.owner', '^ReplicaSet/(.*)-[a-z0-9]+$', '\1'),
                '^[^/]*/', ''
            ),
            regexp_replace(pod, '-[0-9]+$', '')
        )                                           as workload
    from labelled
)
select
    w.cgroup_id,
    w.tenant,
    w.node,
    case
        when w.slurm_job is not null then 'slurm/' || w.slurm_job
        when w.namespace is not null and w.pod is not null then w.namespace || '/' || w.workload
        when w.scope = 'fleet' or j.comm_hash is null then w.tenant
        else format('nccl/{:x}', j.comm_hash)
    end                                             as job,
    coalesce(w.namespace, w.slurm_account)          as team
from workloads w
left join joined j using (cgroup_id)
