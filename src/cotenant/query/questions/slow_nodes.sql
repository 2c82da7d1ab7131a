-- title: Slow nodes
-- question: Does the same work take longer on one node than on the others?
-- param: factor DOUBLE = 1.2   how many times as long it must take at least
-- nodes: each each_mix, mixes
-- reading: The same work is the same operations between two waits, in equal numbers and sizes, of
-- which each node did at least 20 without a collective; the quarter that was fastest counts, so that
-- neighbours weigh little. `slowdown` is over all such work of the node, against the median node of at
-- least four; a node is shown if that is far from how the nodes differ otherwise. `kernel_name` is
-- the largest of the work that took the node longest, `tenant` whose work that is. Another model of GPU is slow in the same way.
with each_mix as (
    select
        node,
        mix,
        count(*)                                    as spans,
        mode(tenant)                                as tenant,
        quantile_cont(span_ns, 0.25)                as here_ns
    from spans
    where proven and waited and collectives = 0 and mix is not null
    group by node, mix
    having count(*) >= 20
),
compared as (
    select *, here_ns / nullif(median(here_ns) over mixes, 0) as slowdown
    from each_mix
    window mixes as (partition by mix)
    qualify count(*) over mixes >= 4
),
nodes as (
    select
        node,
        exp(sum(ln(slowdown) * spans * here_ns) / sum(spans * here_ns)) as slowdown,
        arg_max(mix, (spans * here_ns, mix))        as mix,
        arg_max(tenant, (spans * here_ns, mix))     as tenant,
        arg_max(here_ns, (spans * here_ns, mix))    as here_ns,
        sum(spans)::bigint                          as spans
    from compared
    where slowdown > 0
    group by node
),
told as (
    select
        *,
        -- What nodes usually differ by, as a standard deviation.
        1.4826 * median(abs(ln(slowdown))) over ()  as spread,
        count(*) over ()                            as nodes
    from nodes
),
mixes as (
    select distinct mix, kernel_name, size, count
    from span_mixes
    where mix in (select mix from each_mix)
),
kernels as (
    select mix, arg_max(kernel_name, (coalesce(size, 1) * count, kernel_name)) as kernel_name
    from mixes
    group by mix
)
select
    t.node,
    t.slowdown,
    t.tenant,
    k.kernel_name,
    t.here_ns::bigint                               as here_ns,
    (t.here_ns / t.slowdown)::bigint                as elsewhere_ns,
    t.spans,
    t.nodes
from told t
left join kernels k using (mix)
where t.slowdown >= $factor and ln(t.slowdown) > 6 * t.spread
order by t.slowdown desc, t.node
