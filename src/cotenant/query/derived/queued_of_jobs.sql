-- view: For how long each job and each team had work on each GPU: the union of its tenants' spans, where
-- these are kept and not too many; else what its tenants' seconds add up to. `kind` is job or team.
-- from: spans_in_flight, jobs
-- before: gpu_seconds
with spans as (
    select j.kind, j.name, s.node, s.gpu, s.within_from_ns as start_ns, s.within_to_ns as end_ns
    from spans_in_flight s
    join (
        select cgroup_id, 'job' as kind, job as name from jobs
        union all
        select cgroup_id, 'team', team from jobs
    ) j using (cgroup_id)
    where few_spans() and by_spans(s.node, s.within_from_ns)
),
reached as (
    select
        *,
        max(end_ns) over (
            partition by kind, name, node, gpu
            order by start_ns, end_ns
            rows between unbounded preceding and 1 preceding
        )                                           as reached_ns
    from spans
),
seconds as (
    select unnest(['job', 'team']) as kind, unnest([j.job, j.team]) as name, g.node, g.gpu, g.queued_ns
    from gpu_seconds g
    join jobs j using (cgroup_id)
    where not (few_spans() and by_spans(g.node, g.timestamp_ns)) and g.queued_ns > 0
)
select kind, name, node, gpu, sum(queued_ns)::bigint as queued_ns
from (
    select kind, name, node, gpu, greatest(end_ns - greatest(start_ns, coalesce(reached_ns, start_ns)), 0) as queued_ns
    from reached
    union all
    select * from seconds
)
group by all
