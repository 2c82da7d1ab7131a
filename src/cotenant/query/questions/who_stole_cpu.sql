-- title: Who stole my CPU
-- question: Whose threads ran while each tenant's were ready to run?
-- param: own BOOLEAN = false   also count what a tenant's threads take from each other
-- param: limit BIGINT = 20   how many rows to show
-- param: tenants TENANTS = null   tenants to show, set by --tenant; rows of all tenants are read
-- reading: `waited_ns` is the time in which a thread was runnable without a CPU. `thief` is the tenant
-- that took its CPU, or had it until the thread's turn came. Of threads that use no GPU library, only
-- waits above the recording's threshold count; `totals` has them all.
select
    w.tenant,
    coalesce(p.tenant, '(idle or unknown)')         as thief,
    sum(w.weight)::bigint                           as waits,
    sum(w.waited_ns * w.weight)::bigint             as waited_ns,
    quantile_disc(w.waited_ns, 0.99)                as p99_ns,
    max(w.waited_ns)                                as max_ns,
    arg_max(w.waited_from_ns, w.waited_ns)          as worst_at_ns
from cpu_waits w
left join containers p on p.cgroup_id = w.peer_cgroup_id
where ($own or p.tenant is distinct from w.tenant)
  and ($tenants is null or list_contains($tenants, w.tenant))
group by all
order by waited_ns desc, w.tenant, thief
limit $limit
