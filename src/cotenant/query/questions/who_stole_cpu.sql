-- title: Who stole my CPU
-- question: Whose threads ran while each tenant's were ready to run?
-- param: own BOOLEAN = false   also count what a tenant's threads take from each other
-- param: limit BIGINT = 20   how many rows to show
-- param: tenants TENANTS = null   tenants to show, set by --tenant; rows of all tenants are read
-- nodes: each culprits, counted
-- reading: `waited_ns` is how long the thief had a CPU that a thread of the tenant was ready to run on:
-- never more than `ran_ns`, all its time on CPUs. Two threads that wait for the same CPU at the same
-- time count once. `(nobody known)` is the rest: the CPU was idle, or had more runs than are
-- remembered. `waits`, `p99_ns` and `max_ns` are of waits with a row of which the thief had the most;
-- see `--host-rows` for which have one.
with culprits as (
    select tenant, thief, sum(waited_ns) as waited_ns, sum(ran_ns) as ran_ns
    from cpu_culprits
    where ($own or thief is distinct from tenant)
      and ($tenants is null or list_contains($tenants, tenant))
    group by tenant, thief
),
counted as (
    -- By duration, to rank them over all nodes.
    select
        w.tenant,
        p.tenant                                    as thief,
        w.waited_ns,
        count(*)                                    as rows,
        sum(w.weight)                               as waits,
        min(w.waited_from_ns)                       as first_ns
    from cpu_waits w
    left join containers p on p.cgroup_id = w.thief_cgroup_id
    group by all
),
ranked as (
    select
        *,
        max(waited_ns) over pairs                   as max_ns,
        sum(rows) over pairs                        as measured,
        sum(rows) over (pairs order by waited_ns)   as up_to
    from counted
    window pairs as (partition by tenant, thief)
),
rows as (
    select
        tenant,
        thief,
        sum(waits)                                  as waits,
        -- As quantile_disc: the first that at least 99 of 100 do not exceed.
        min(waited_ns) filter (up_to >= measured - floor(measured - measured * 0.99)) as p99_ns,
        any_value(max_ns)                           as max_ns,
        min(first_ns) filter (waited_ns = max_ns)   as worst_at_ns
    from ranked
    group by tenant, thief
),
summed as (
    select tenant, thief, sum(waited_ns)::bigint as waited_ns, sum(ran_ns)::bigint as ran_ns
    from culprits
    group by tenant, thief
)
select
    w.tenant,
    coalesce(w.thief, '(nobody known)')             as thief,
    coalesce(r.waits, 0)::bigint                    as waits,
    w.waited_ns,
    w.ran_ns,
    r.p99_ns,
    r.max_ns,
    r.worst_at_ns
from summed w
left join rows r on r.tenant = w.tenant and r.thief is not distinct from w.thief
order by w.waited_ns desc, w.tenant, thief
limit $limit
