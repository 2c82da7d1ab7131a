-- title: Waits for the GPU
-- question: Where does each tenant wait for its GPU, for what, and what did the host do meanwhile?
-- param: limit BIGINT = 20   how many rows to show
-- reading: `waited` is the time inside waits, `kernel_name` the longest-running work they waited
-- for. A tenant that waits most of the time is bound by the GPU, one that hardly waits by its host.
-- `cpu_wait` is the part of the waits in which a thread of the process was runnable without a CPU:
-- that part is not the GPU's.
with waits as (
    -- One call may wait for many streams; it is one wait.
    select
        tenant,
        node,
        pid,
        proof_ns,
        proof_end_ns - proof_ns                     as waited_ns,
        proof_api                                   as api,
        arg_max(kernel_name, coalesce(size, 0))     as kernel_name,
        sum(weight)                                 as operations
    from gpu_work
    where span is not null
    group by tenant, node, pid, proof_ns, proof_end_ns, proof_api
),
starved as (
    select
        s.tenant,
        s.node,
        s.pid,
        s.proof_ns,
        sum(w.waited_ns * w.weight)                 as cpu_wait_ns
    from waits s
    join cpu_waits w
      on w.node = s.node and w.pid = s.pid
     and w.waited_from_ns >= s.proof_ns and w.waited_from_ns < s.proof_ns + s.waited_ns
    group by s.tenant, s.node, s.pid, s.proof_ns
)
select
    s.tenant,
    s.api,
    s.kernel_name,
    count(*)                                        as waits,
    sum(s.waited_ns)::bigint                        as waited_ns,
    max(s.waited_ns)                                as longest_ns,
    arg_max(s.proof_ns, s.waited_ns)                as longest_at_ns,
    coalesce(sum(c.cpu_wait_ns), 0)::bigint         as cpu_wait_ns,
    sum(s.operations)::bigint                       as operations
from waits s
left join starved c using (tenant, node, pid, proof_ns)
group by s.tenant, s.api, s.kernel_name
order by waited_ns desc, s.tenant, s.api, s.kernel_name
limit $limit
