-- title: Who slows whom on the GPU
-- question: How much longer does a tenant's work take while another is on its GPU?
-- reading: `slowdown` 1.5 means that work takes 1.5 times as long while the aggressor is busy; the
-- interval is 95 %, `p` how often a timeline of the aggressor turned round says as much. Cause
-- `no evidence` means that interval, p or dose-response do not agree on a slowdown; it is an
-- answer. `too few samples`: fewer than 30 pieces of work of one kind alone, or with the other.
select
    victim,
    aggressor,
    gpu,
    slowdown,
    ci_low,
    ci_high,
    p,
    samples,
    cause,
    window_start_ns                                 as window_from_at_ns,
    window_end_ns                                   as window_to_at_ns
from interference
order by
    (cause in ('no evidence', 'too few samples')), slowdown desc nulls last, victim, aggressor, gpu
