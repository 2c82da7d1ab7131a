-- title: Who slows whom on the GPU
-- question: How much longer does a tenant's work take while another is on its GPU?
-- reading: `slowdown` 1.5 means that work takes 1.5 times as long while the aggressor is busy; the
-- confidence interval is 95 %, and `p` is how often the aggressor's busy intervals, rotated at random,
-- explain as much. `no evidence` means that interval, p and dose-response do not agree on a slowdown.
-- `too few samples` means fewer than 30 pieces of work of one kind, alone or shared.
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
