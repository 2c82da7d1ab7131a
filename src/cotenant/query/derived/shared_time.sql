-- view: For each pair of tenants on a GPU, how long both had work on it.
-- from: busy
with both_busy as (
    select
        a.tenant,
        b.tenant                                    as other,
        a.node,
        a.gpu,
        least(a.end_ns, b.end_ns) - greatest(a.start_ns, b.start_ns) as overlap_ns
    from busy a
    join busy b
      on a.node = b.node
     and coalesce(a.gpu, '') = coalesce(b.gpu, '')
     and a.tenant <> b.tenant
     and a.start_ns < b.end_ns
     and b.start_ns < a.end_ns
),
alone as (
    select tenant, node, gpu, sum(busy_ns)::bigint as busy_ns
    from busy
    group by all
)
select
    o.tenant,
    o.other,
    o.node,
    o.gpu,
    sum(o.overlap_ns)::bigint                       as overlap_ns,
    any_value(a.busy_ns)                            as busy_ns,
    sum(o.overlap_ns) / any_value(a.busy_ns)        as share
from both_busy o
join alone a
  on a.tenant = o.tenant and a.node = o.node and a.gpu is not distinct from o.gpu
group by o.tenant, o.other, o.node, o.gpu
