-- title: Cold start
-- question: How long did each process need before its first kernel, and for what?
-- nodes: each starts
-- reading: The time from a process's start to its first launch. Its start is its exec, if that was
-- recorded; else, for the GPU processes that came before a cgroup's first launch, as ranks of a job
-- do, the creation of the cgroup. A process that started outside the window is not shown. `init`, `context`
-- and `module` are driver calls of the process until then. Where they are no rows, they are known from
-- `totals`, if only one GPU process of the cgroup started in that time; else they are NULL. The rest was
-- spent outside CUDA: imports, data, weights.
with processes as (
    select
        node,
        pid,
        arg_min(cgroup_id, timestamp_ns)            as cgroup_id,
        arg_min(comm, timestamp_ns)                 as comm,
        min(timestamp_ns)                           as first_ns,
        min(timestamp_ns) filter (op in ('launch', 'graph_launch')) as launch_ns,
        max(timestamp_ns + coalesce(duration_ns, 0)) as last_ns
    from cuda_events
    group by node, pid
),
programs as (
    select node, pid, timestamp_ns as exec_ns from host_events where op = 'exec'
),
windows as (
    -- `losses` has a row each second: its first tells where the window begins.
    select node, min(timestamp_ns) - 2_000_000_000 as window_ns
    from losses
    group by node
),
started as (
    select
        c.tenant,
        p.*,
        coalesce(x.exec_ns, case
            when p.first_ns <= min(p.launch_ns) over (partition by p.cgroup_id)
                and c.created_ns >= b.window_ns
                and c.created_ns <= p.first_ns
            then c.created_ns
        end)                                        as begun_ns
    from processes p
    join containers c using (cgroup_id)
    left join windows b on b.node = p.node
    asof left join programs x on p.node = x.node and p.pid = x.pid and p.first_ns >= x.exec_ns
    qualify begun_ns is not null
),
-- Few, of the many that there may be.
early as (
    select node, pid, timestamp_ns, op, duration_ns
    from cuda_events
    where timestamp_ns <= (select max(launch_ns) from started)
      and pid in (select pid from started)
),
calls as (
    select
        s.node,
        s.pid,
        sum(e.duration_ns) filter (e.op = 'init')   as init_ns,
        sum(e.duration_ns) filter (e.op = 'context') as context_ns,
        sum(e.duration_ns) filter (e.op = 'module') as module_ns,
        sum(e.duration_ns) filter (e.op = 'alloc')  as alloc_ns,
        sum(e.duration_ns) filter (e.op = 'memcpy') as copy_ns,
        arg_max(e.duration_ns, e.op = 'launch') filter (e.timestamp_ns = s.launch_ns) as launch_call_ns
    from started s
    join early e on e.node = s.node and e.pid = s.pid and e.timestamp_ns <= s.launch_ns
    group by s.node, s.pid
),
sampled as (
    select distinct node, timestamp_ns from totals
),
-- Up to the first sample after the launch, however late it came.
until as (
    select s.node, s.pid, s.cgroup_id, s.begun_ns, s.launch_ns, m.timestamp_ns as until_ns
    from started s
    asof left join sampled m on m.node = s.node and m.timestamp_ns >= s.launch_ns
),
-- Totals are of a cgroup: what they hold is one process's only if there was no other.
alone as (
    select u.*
    from until u
    where not exists (
        from processes p
        where p.node = u.node and p.cgroup_id = u.cgroup_id and p.pid <> u.pid
          and p.first_ns <= coalesce(u.until_ns, u.launch_ns + 1_000_000_000)
          and p.last_ns >= u.begun_ns
    )
),
-- Calls that become rows only if every call is recorded; `totals` always have them.
totalled as (
    select
        s.node,
        s.pid,
        any_value(s.launch_ns - s.begun_ns)         as most_ns,
        sum(t.sum_ns) filter (t.function = 'cuInit') as init_ns,
        sum(t.sum_ns) filter (regexp_matches(t.function, '^cu(CtxCreate|DevicePrimaryCtxRetain)')) as context_ns,
        sum(t.sum_ns) filter (regexp_matches(t.function, '^cu(Module|Library)Load')) as module_ns
    from alone s
    join totals t
        on t.cgroup_id = s.cgroup_id
        and t.timestamp_ns between s.begun_ns and coalesce(s.until_ns, s.launch_ns + 1_000_000_000)
    group by s.node, s.pid
    -- Calls of a second, of which a part may be after the launch.
    having coalesce(init_ns, 0) + coalesce(context_ns, 0) + coalesce(module_ns, 0) <= most_ns
),
starts as (
    select
        s.tenant,
        s.pid,
        s.comm,
        s.first_ns                                  as first_call_at_ns,
        s.launch_ns - s.begun_ns                    as until_first_launch_ns,
        coalesce(c.init_ns, t.init_ns)::bigint      as init_ns,
        coalesce(c.context_ns, t.context_ns)::bigint as context_ns,
        coalesce(c.module_ns, t.module_ns)::bigint  as module_ns,
        c.alloc_ns::bigint                          as alloc_ns,
        c.copy_ns::bigint                           as copy_ns,
        c.launch_call_ns                            as first_launch_call_ns,
        s.last_ns - s.begun_ns                      as seen_ns,
        s.node
    from started s
    join calls c using (node, pid)
    left join totalled t using (node, pid)
)
select * exclude (node)
from starts
order by until_first_launch_ns desc, tenant, pid, node
