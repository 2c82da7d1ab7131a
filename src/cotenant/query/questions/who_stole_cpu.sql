-- title: Who stole my CPU
-- question: Whose threads ran while each tenant's were ready to run?
-- param: own BOOLEAN = false   also count what a tenant's threads take from each other
-- param: limit BIGINT = 20   how many rows to show
-- param: tenants TENANTS = null   tenants to show, set by --tenant; rows of all tenants are read
-- reading: `waited_ns` is how long the thief had a CPU that a thread of the tenant was ready to run on:
-- never more than `ran_ns`, all its time on CPUs. Two threads that wait for the same CPU at the same
-- time count once. `(nobody known)` is the rest: the CPU was idle, or had more runs than are
-- remembered. `waits`, `p99_ns` and `max_ns` are of waits with a row of which the thief had the most;
-- see `--host-rows` for which have one.
with rows as (
    select
        w.tenant,
        p.tenant                                    as thief,
        sum(w.weight)                               as waits,
        quantile_disc(w.waited_ns, 0.99)            as p99_ns,
        max(w.waited_ns)                            as max_ns,
        arg_max(w.waited_from_ns, w.waited_ns)      as worst_at_ns
    from cpu_waits w
    left join containers p on p.cgroup_id = w.thief_cgroup_id
    group by all
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
from cpu_culprits w
left join rows r on r.tenant = w.tenant and r.thief is not distinct from w.thief
where ($own or w.thief is distinct from w.tenant)
  and ($tenants is null or list_contains($tenants, w.tenant))
order by w.waited_ns desc, w.tenant, thief
limit $limit
