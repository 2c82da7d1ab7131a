-- title: Waits for the GPU
-- question: Where does each tenant wait for its GPU, for what, and what did the host do meanwhile?
-- param: limit BIGINT = 20   how many rows to show
-- nodes: each stalls
-- reading: `waited` is the time inside waits, `kernel_name` the longest-running work they waited
-- for. A tenant that waits most of the time is bound by the GPU, one that hardly waits by its host.
-- `cpu_wait` is the part of the waits in which a thread of the process was runnable without a CPU:
-- that part is not the GPU's.
with longest as (
    select
        mix,
        arg_max(kernel_name, (coalesce(size, 0), kernel_name)) as kernel_name,
        max(coalesce(size, 0))                      as size,
        sum(count)                                  as operations
    from span_mixes
    group by mix
),
-- Computed twice rather than held: there may be millions.
waits as not materialized (
    select
        s.tenant,
        s.node,
        s.pid,
        s.proof_ns,
        s.waited_ns,
        s.proof_api                                 as api,
        l.kernel_name,
        l.operations
    from spans s
    left join longest l on l.mix = s.mix
    where s.proven and s.streams = 1
    union all
    -- One call may wait for many streams; it is one wait.
    select
        s.tenant,
        s.node,
        s.pid,
        s.proof_ns,
        s.waited_ns,
        s.proof_api                                 as api,
        arg_max(l.kernel_name, l.size)              as kernel_name,
        sum(l.operations)                           as operations
    from spans s
    left join longest l on l.mix = s.mix
    where s.proven and s.streams > 1
    group by s.tenant, s.node, s.pid, s.proof_ns, s.waited_ns, s.proof_api
),
starved as (
    select
        s.tenant,
        s.node,
        s.pid,
        s.proof_ns,
        sum(w.waited_ns * w.weight)                 as cpu_wait_ns
    -- By slices of 2^27 ns: to compare all waits of a process with each other takes the square.
    from (
        select *, unnest(range(proof_ns >> 27, (proof_ns + waited_ns >> 27) + 1)) as slice
        from waits
    ) s
    join (select *, waited_from_ns >> 27 as slice from cpu_waits) w
      on w.node = s.node and w.pid = s.pid and w.slice = s.slice
     and w.waited_from_ns >= s.proof_ns and w.waited_from_ns < s.proof_ns + s.waited_ns
    group by s.tenant, s.node, s.pid, s.proof_ns
),
stalls as (
    select
        s.tenant,
        s.api,
        s.kernel_name,
        count(*)                                    as waits,
        sum(s.waited_ns)                            as waited_ns,
        max(s.waited_ns)                            as longest_ns,
        arg_max(s.proof_ns, (s.waited_ns, -s.proof_ns)) as longest_at_ns,
        -- Of several threads that wait at the same time, no more than the wait.
        sum(least(coalesce(c.cpu_wait_ns, 0), s.waited_ns)) as cpu_wait_ns,
        sum(s.operations)                           as operations
    from waits s
    left join starved c using (tenant, node, pid, proof_ns)
    group by s.tenant, s.api, s.kernel_name
)
select
    s.tenant,
    s.api,
    s.kernel_name,
    sum(s.waits)::bigint                            as waits,
    sum(s.waited_ns)::bigint                        as waited_ns,
    max(s.longest_ns)                               as longest_ns,
    arg_max(s.longest_at_ns, (s.longest_ns, -s.longest_at_ns)) as longest_at_ns,
    sum(s.cpu_wait_ns)::bigint                      as cpu_wait_ns,
    sum(s.operations)::bigint                       as operations
from stalls s
group by s.tenant, s.api, s.kernel_name
order by waited_ns desc, s.tenant, s.api, s.kernel_name
limit $limit
