-- title: Two tenants compared
-- question: Where do two tenants that should be alike differ, by kernel, image and build?
-- param: a TENANT = null   the first tenant; the busiest, if not set
-- param: b TENANT = null   the second tenant; the busiest other, if not set
-- param: limit BIGINT = 30   how many rows to show
-- param: tenants TENANTS = null   tenants to show, set by --tenant; rows of all tenants are read
-- nodes: each calls
-- reading: Mean duration of a call on the host, for each tenant. If `image_a` and `image_b` differ, or
-- one runs a kernel that the other does not, they do not run the same code.
with calls as (
    select
        c.tenant,
        e.kernel_name,
        min(c.image)                                as image,
        sum(e.rows)                                 as rows,
        sum(e.calls)                                as calls,
        sum(e.total_ns)                             as total_ns
    from (
        select
            cgroup_id,
            kernel_name,
            count(*)                                as rows,
            sum(weight)                             as calls,
            sum(duration_ns * weight)               as total_ns
        from cuda_events
        group by all
    ) e
    join containers c using (cgroup_id)
    group by all
),
busiest as (
    select tenant, row_number() over (order by sum(rows) desc, tenant) as place
    from calls
    group by tenant
),
one as (
    select coalesce($a, (
        select arg_min(tenant, place)
        from busiest
        where tenant is distinct from $b and ($tenants is null or list_contains($tenants, tenant))
    ))                                              as a
),
pair as (
    select a, coalesce($b, (
        select arg_min(tenant, place) from busiest where tenant is distinct from a
    ))                                              as b
    from one
)
select
    p.a                                             as tenant,
    p.b                                             as other,
    c.kernel_name,
    min(c.image) filter (c.tenant = p.a)            as image_a,
    min(c.image) filter (c.tenant <> p.a)           as image_b,
    nullif(regexp_extract(c.kernel_name, '^unknown@([0-9a-f]+)', 1), '') as build_id,
    coalesce(sum(c.calls) filter (c.tenant = p.a), 0)::bigint as calls_a,
    coalesce(sum(c.calls) filter (c.tenant <> p.a), 0)::bigint as calls_b,
    (sum(c.total_ns) filter (c.tenant = p.a) / sum(c.calls) filter (c.tenant = p.a))::bigint as a_ns,
    (sum(c.total_ns) filter (c.tenant <> p.a)
        / sum(c.calls) filter (c.tenant <> p.a))::bigint as b_ns,
    (b_ns / nullif(a_ns, 0))::double                as ratio
from calls c
join pair p on c.tenant in (p.a, p.b)
group by p.a, p.b, c.kernel_name
order by coalesce(sum(c.total_ns), 0) desc, p.a, p.b, c.kernel_name
limit $limit
