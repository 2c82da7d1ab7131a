-- title: When the GPU was busy, and for whom
-- question: For how much of the time did each tenant have work on each GPU?
-- nodes: each found
-- reading: Busy time is the union of the tenant's spans, each from the first launch to the wait that
-- saw it done, cut at the edges of the window. `share` is its part of `time_ns`, the time in which the host was recorded; who_uses_what, `top` and the page
-- show the same share. `unproven` is the part of `busy` in spans that no wait ended. Before the oldest
-- spans that are kept, busy time is added up from `gpu_seconds`; `periods` and `longest` are of spans.
with open as (
    select
        tenant,
        node,
        gpu,
        sum(within_to_ns - within_from_ns) filter (not proven)::bigint as unproven_ns
    from spans_in_flight
    where by_spans(node, within_from_ns)
    group by tenant, node, gpu
),
found as (
    select
        w.tenant,
        w.gpu,
        w.busy_ns,
        w.busy_ns / nullif(l.time_ns, 0)            as share,
        w.periods,
        w.longest_ns,
        -- Spans that overlap are added up there, and joined here.
        least(coalesce(o.unproven_ns, 0) + w.added_up_unproven_ns, w.busy_ns) as unproven_ns,
        l.time_ns,
        w.node
    from busy_time w
    left join open o
      on o.tenant = w.tenant and o.node = w.node and o.gpu is not distinct from w.gpu
    left join looked_at l on l.node = w.node
)
select * exclude (node)
from found
order by busy_ns desc, tenant, gpu, node
