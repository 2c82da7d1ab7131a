-- title: CUDA graphs and their re-capture
-- question: Does a tenant capture graphs again and again instead of launching them?
-- nodes: each calls
-- reading: A graph pays off after many launches. Many graphs with few launches each, or
-- much time in graph calls, point to a shape that changes from step to step.
with calls as (
    select
        c.tenant,
        e.op,
        e.api,
        e.graph,
        sum(e.duration_ns * e.weight)               as total_ns,
        sum(e.weight)                               as weight
    from cuda_events e
    join containers c using (cgroup_id)
    where e.op in ('graph', 'graph_launch')
    group by all
)
select
    tenant,
    count(distinct graph)                           as graphs,
    coalesce(sum(weight) filter (op = 'graph_launch'), 0)::bigint as launches,
    launches / nullif(graphs, 0)                    as launches_per_graph,
    coalesce(sum(weight) filter (api ilike '%Instantiate%'), 0)::bigint as instantiations,
    coalesce(sum(weight) filter (api ilike '%EndCapture%'), 0)::bigint as captures,
    coalesce(sum(total_ns) filter (op = 'graph'), 0)::bigint as making_ns,
    coalesce(sum(total_ns) filter (op = 'graph_launch'), 0)::bigint as launching_ns
from calls
group by tenant
order by making_ns desc, tenant
