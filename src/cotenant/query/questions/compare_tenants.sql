-- title: Two tenants compared
-- question: Where do two tenants that should be alike differ, by kernel, image and build?
-- param: a TENANT = null   the first tenant; the busiest, if not set
-- param: b TENANT = null   the second tenant; the busiest other, if not set
-- param: limit BIGINT = 30   how many rows to show
-- param: tenants TENANTS = null   tenants to show, set by --tenant; rows of all tenants are read
-- reading: Mean duration of a call on the host, for each tenant. If `image_a` and `image_b` differ, or
-- one runs a kernel that the other does not, they do not run the same code.
with busiest as (
    select tenant, row_number() over (order by count(*) desc, tenant) as place
    from cuda_events
    join containers using (cgroup_id)
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
),
calls as (
    select
        c.tenant,
        c.tenant = p.a                              as is_a,
        p.a                                         as tenant_a,
        p.b                                         as tenant_b,
        e.kernel_name,
        c.image,
        nullif(regexp_extract(e.kernel_name, '^unknown@([0-9a-f]+)', 1), '') as build_id,
        e.duration_ns,
        e.weight
    from cuda_events e
    join containers c using (cgroup_id)
    join pair p on c.tenant in (p.a, p.b)
)
select
    tenant_a                                        as tenant,
    tenant_b                                        as other,
    kernel_name,
    any_value(image) filter (is_a)                  as image_a,
    any_value(image) filter (not is_a)              as image_b,
    any_value(build_id)                             as build_id,
    coalesce(sum(weight) filter (is_a), 0)::bigint  as calls_a,
    coalesce(sum(weight) filter (not is_a), 0)::bigint as calls_b,
    (sum(duration_ns * weight) filter (is_a) / sum(weight) filter (is_a))::bigint as a_ns,
    (sum(duration_ns * weight) filter (not is_a) / sum(weight) filter (not is_a))::bigint as b_ns,
    (b_ns / nullif(a_ns, 0))::double                as ratio
from calls
group by tenant_a, tenant_b, kernel_name
order by coalesce(sum(duration_ns * weight), 0) desc, tenant_a, tenant_b, kernel_name
limit $limit
