-- title: When the GPU was busy, and for whom
-- question: For how much of the time did each tenant have work on each GPU?
-- reading: Busy time is the union of the tenant's spans, each from the first launch to the wait that
-- saw it done. `share` is its part of the time from the first span to the last; `unproven` is the part
-- in spans that no wait ended.
with whole as (
    select
        tenant,
        gpu,
        sum(busy_ns)::bigint                        as busy_ns,
        count(*)                                    as periods,
        max(busy_ns)                                as longest_ns,
        max(end_ns) - min(start_ns)                 as seen_ns
    from busy
    group by tenant, gpu
),
open as (
    select tenant, gpu, sum(span_ns) filter (not proven)::bigint as unproven_ns
    from spans
    group by tenant, gpu
)
select
    w.tenant,
    w.gpu,
    w.busy_ns,
    w.busy_ns / nullif(w.seen_ns, 0)                as share,
    w.periods,
    w.longest_ns,
    coalesce(o.unproven_ns, 0)                      as unproven_ns
from whole w
join open o on o.tenant = w.tenant and o.gpu is not distinct from w.gpu
order by w.busy_ns desc, w.tenant, w.gpu
