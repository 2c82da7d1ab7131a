-- title: Who slows whom on the GPU
-- question: How much longer does a tenant's work take while another is on its GPU?
-- nodes: each pairs
-- reading: `slowdown` 1.5 means that work takes 1.5 times as long while the aggressor has work queued; the
-- confidence interval is 95 %, and `p` is how often the aggressor's queued intervals, rotated at random,
-- explain as much. `evidence` means that interval, p and dose-response agree on a slowdown; `maybe`,
-- that p is at most 0.1 and they do not all agree; `none`, neither, or too little to tell.
-- `too few samples` means fewer than 30 pieces of work of one kind, alone or shared. `samples` is how
-- many were compared, of at most 100,000 spans of each tenant on a GPU.
with pairs as (
    from interference
)
select
    victim,
    aggressor,
    slowdown,
    evidence,
    cause,
    ci_low,
    ci_high,
    p,
    samples,
    gpu,
    window_start_ns                                 as window_from_at_ns,
    window_end_ns                                   as window_to_at_ns
from pairs
order by
    list_position(['evidence', 'maybe', 'none'], evidence), slowdown desc nulls last, victim, aggressor, gpu, node
