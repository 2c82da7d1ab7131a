-- title: CUDA graphs and their re-capture
-- question: Does a tenant capture graphs again and again instead of launching them?
-- nodes: each calls, made
-- reading: A graph pays off after many launches. Many graphs with few launches each, or much time in
-- `making` them, point to a shape that changes from step to step. `instantiations`, `captures` and `making`
-- are the driver's, from `totals`; NULL where there are none of the tenant.
with calls as (
    select
        c.tenant,
        e.graph,
        sum(e.duration_ns * e.weight)               as total_ns,
        sum(e.weight)                               as weight
    from cuda_events e
    join containers c using (cgroup_id)
    where e.op = 'graph_launch'
    group by all
),
made as (
    select
        c.tenant,
        sum(t.count) filter (starts_with(t.function, 'cuGraphInstantiate')) as instantiations,
        sum(t.count) filter (starts_with(t.function, 'cuStreamEndCapture')) as captures,
        sum(t.sum_ns) filter (
            starts_with(t.function, 'cuGraph') and not starts_with(t.function, 'cuGraphLaunch')
            or regexp_matches(t.function, '^cuStream(Begin|BeginRe|End)[cC]apture')
        )                                           as making_ns
    from totals t
    join containers c using (cgroup_id)
    where t.family = 'cuda'
    group by c.tenant
),
launched as (
    select
        tenant,
        count(distinct graph)                       as graphs,
        sum(weight)                                 as launches,
        sum(total_ns)                               as launching_ns
    from calls
    group by tenant
),
-- Parts of a tenant may come from many nodes.
counted as (
    select
        tenant,
        coalesce(sum(instantiations), 0)            as instantiations,
        coalesce(sum(captures), 0)                  as captures,
        coalesce(sum(making_ns), 0)                 as making_ns
    from made
    group by tenant
)
select
    tenant,
    coalesce(l.graphs, 0)                           as graphs,
    coalesce(l.launches, 0)::bigint                 as launches,
    launches / nullif(graphs, 0)                    as launches_per_graph,
    m.instantiations::bigint                        as instantiations,
    m.captures::bigint                              as captures,
    m.making_ns::bigint                             as making_ns,
    coalesce(l.launching_ns, 0)::bigint             as launching_ns
from counted m
full join launched l using (tenant)
where l.tenant is not null or m.making_ns > 0
order by making_ns desc nulls last, tenant
