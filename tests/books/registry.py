"""What each column of each question is: what its equation is, or why it has none.

``keys`` name a row. ``add`` columns of two halves of a window sum to those of the whole; of
``most`` and ``least`` the larger and the smaller one is the whole's; ``means`` are a sum by count.
``ratios`` are one column by another, times a factor. ``rows`` columns equal what SQL over the
recorded rows gives by the same keys, in any window; ``answers`` those of another answer, which it
adds up. ``free`` columns have no equation over time, and why; ``at_most`` pairs hold in each row,
with or without. All columns of a question about one tenant equal those of all, but for ``of_all``.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Columns:
    """The columns of one question."""

    keys: tuple[str, ...] = ()
    add: tuple[str, ...] = ()
    most: tuple[str, ...] = ()
    least: tuple[str, ...] = ()
    means: dict[str, tuple[str, str]] = field(default_factory=dict)
    ratios: dict[str, tuple[str, str, float]] = field(default_factory=dict)
    rows: str | None = None  # Its columns are the keys, and those that it has equations for.
    of_rows: tuple[str, ...] = ()  # Those of them that have no other equation.
    answers: dict[str, tuple[str, str]] = field(default_factory=dict)
    free: dict[str, str] = field(default_factory=dict)
    at_most: tuple[tuple[str, str], ...] = ()
    parts: tuple[tuple[tuple[str, ...], str], ...] = ()  # These together are at most that.
    of_all: tuple[str, ...] = ()

    @property
    def names(self) -> set[str]:
        """All of them."""
        added = {*self.keys, *self.add, *self.most, *self.least, *self.means}
        return {*added, *self.ratios, *self.of_rows, *self.answers, *self.free}


# Why a column has no equation over time.
CALL = "is of a single call"
RANK = "is a quantile or a rank, which halves do not determine"
RATE = "is a rate or a share; its bounds are checked"
MODEL = "is estimated from all of the window"
LEVEL = "is a level, not a sum"
SPANS = "is of spans, which a window cuts"
CHOSEN = "is the one of several that was chosen"
WINDOW = "is of the window itself"

REGISTRY: dict[str, Columns] = {
    "around_slow_call": Columns(
        free=dict.fromkeys(
            ("tenant", "api", "pid", "tid", "call_at_ns", "duration_ns", "off_cpu_ns",
             "cpu_wait_ns", "cpu_thief", "own_io_ns", "other_io_bytes", "other_io_tenant",
             "retransmits"),
            CALL,
        ),
        at_most=(("off_cpu_ns", "duration_ns"), ("cpu_wait_ns", "duration_ns")),
    ),
    "cold_start": Columns(
        free=dict.fromkeys(
            ("tenant", "pid", "comm", "first_call_at_ns", "until_first_launch_ns", "init_ns",
             "context_ns", "module_ns", "alloc_ns", "copy_ns", "first_launch_call_ns", "seen_ns"),
            "is of a start, which lies in one half or in none",
        ),
        at_most=(("until_first_launch_ns", "seen_ns"),),
        parts=((("init_ns", "context_ns", "module_ns"), "until_first_launch_ns"),),
    ),
    "compare_tenants": Columns(
        free=dict.fromkeys(
            ("tenant", "other", "kernel_name", "image_a", "image_b", "build_id", "calls_a",
             "calls_b", "a_ns", "b_ns", "ratio"),
            "compares medians of two tenants",
        ),
    ),
    "compare_windows": Columns(
        free=dict.fromkeys(
            ("tenant", "kernel_name", "image_before", "image_after", "build_id", "calls_before",
             "calls_after", "before_ns", "after_ns", "ratio", "change_ns"),
            "chooses its own windows",
        ),
    ),
    "copies": Columns(
        keys=("tenant", "direction", "waits"),
        add=("copies", "total_bytes", "host_ns"),
        most=("largest_bytes",),
        ratios={"per_host_s_bytes": ("total_bytes", "host_ns", 1e9)},
        rows="""select tenant, coalesce(direction, '?') as direction,
            bool_and(stream is null) as waits,
            sum(weight) as copies, sum(bytes * weight) as total_bytes, max(bytes) as largest_bytes,
            sum(duration_ns * weight) as host_ns, sum(bytes * weight) * 1e9
            / nullif(max(timestamp_ns) - min(timestamp_ns), 0) as per_s_bytes
            from cuda_events join containers using (cgroup_id) where op = 'memcpy'
            group by tenant, direction""",
        of_rows=("per_s_bytes",),
    ),
    "device_time": Columns(
        keys=("tenant", "kernel_name"),
        add=("launches",),
        free=dict.fromkeys(("gpu_ns", "mean_ns", "quality", "mean_low_ns", "mean_high_ns"), MODEL)
        | dict.fromkeys(("why", "gpu_ns_source", "source_tenant"), CHOSEN),
        at_most=(("mean_low_ns", "mean_ns"), ("mean_ns", "mean_high_ns")),
    ),
    "failed_calls": Columns(
        keys=("tenant", "family", "api", "result"),
        add=("calls",),
        least=("first_at_ns",),
        most=("last_at_ns",),
        at_most=(("first_at_ns", "last_at_ns"),),
    ),
    "gpu_use": Columns(
        keys=("tenant", "gpu"),
        add=("queued_ns", "gpu_time_low_ns", "gpu_time_high_ns"),
        free={"time_ns": WINDOW, "share": RATE, "idle_share": RATE}
        | dict.fromkeys(("gpu_time", "source", "source_tenant"), CHOSEN)
        | dict.fromkeys(("gpu_time_ns", "gpu_time_ci_low_ns", "gpu_time_ci_high_ns"), MODEL)
        | dict.fromkeys(("work_ns", "work_ci_low_ns", "work_ci_high_ns"), MODEL),
        at_most=(("queued_ns", "time_ns"), ("gpu_time_low_ns", "gpu_time_ci_low_ns"),
                 ("gpu_time_ci_low_ns", "gpu_time_ns"), ("gpu_time_ns", "gpu_time_ci_high_ns"),
                 ("gpu_time_ci_high_ns", "gpu_time_high_ns"),
                 ("gpu_time_low_ns", "gpu_time_high_ns"), ("work_ci_low_ns", "work_ns"),
                 ("work_ns", "work_ci_high_ns")),
    ),
    "gpu_overlap": Columns(
        keys=("tenant", "other", "gpu"),
        add=("overlap_ns",),
        ratios={"queued_share": ("overlap_ns", "queued_ns", 1.0)},
        answers={"queued_ns": ("gpu_use", "queued_ns")},
        at_most=(("overlap_ns", "queued_ns"),),
    ),
    "graph_recapture": Columns(
        keys=("tenant",),
        add=("launches", "instantiations", "captures", "making_ns", "launching_ns"),
        free={"graphs": "the same graph is in both halves"},
        means={"launches_per_graph": ("launches", "graphs")},
    ),
    "interference": Columns(
        keys=("victim", "aggressor", "gpu"),
        free=dict.fromkeys(("slowdown", "evidence", "cause", "ci_low", "ci_high", "p", "samples"),
                           MODEL)
        | dict.fromkeys(("window_from_at_ns", "window_to_at_ns"), WINDOW),
        at_most=(("ci_low", "ci_high"),),
    ),
    "io_delays": Columns(
        keys=("tenant", "neighbour", "device", "node"),
        free=dict.fromkeys(("slowdown", "delayed_ns", "beside_ns", "alone_ns"), MODEL)
        | dict.fromkeys(("neighbour_bytes", "requests_beside", "requests_alone"), MODEL),
    ),
    "job_nodes": Columns(
        keys=("job", "node", "tenant"),
        add=("launches", "nccl_calls"),
        free={"queued_ns": SPANS, "queued_share": RATE, "of_median": RATE}
        | dict.fromkeys(("nodes", "gpus", "ranks"), "counts what is in both halves"),
    ),
    "late_ranks": Columns(
        keys=("tenant", "comm_hash", "rank", "node"),
        add=("collectives", "last", "left_out"),
        most=("ranks_seen",),
        free={"late_ns": RANK, "held_up_ns": "of turns with one rank alone there is none",
              "left_out_because": CHOSEN, "clock_error_ns": MODEL},
        at_most=(("last", "collectives"),),
    ),
    "launch_rate": Columns(
        keys=("tenant", "start_at_ns"),
        add=("launches",),
        rows="""select tenant, timestamp_ns // 1000000000 * 1000000000 as start_at_ns,
            sum(weight) as launches, sum(weight)::double as launches_per_s,
            (sum(duration_ns * weight) / sum(weight))::bigint as mean_ns,
            quantile_disc(duration_ns, 0.99) as p99_ns, max(duration_ns) as peak_ns
            from cuda_events join containers using (cgroup_id)
            where op in ('launch', 'graph_launch') and result = 0 group by all""",
        of_rows=("launches_per_s", "mean_ns", "p99_ns", "peak_ns"),
        at_most=(("p99_ns", "peak_ns"),),
    ),
    "memory_growth": Columns(
        keys=("tenant", "gpu"),
        add=("unfreed",),
        free={"first_bytes": LEVEL, "held_bytes": LEVEL, "growth_bytes": LEVEL, "rises": RATE,
              "per_s_bytes": RATE, "through": CHOSEN},
    ),
    "memory_held": Columns(
        keys=("tenant", "gpu", "start_at_ns"),
        free={"held_bytes": LEVEL, "most_bytes": LEVEL, "allocations": LEVEL},
        at_most=(("held_bytes", "most_bytes"),),
    ),
    "nccl_cost": Columns(
        keys=("tenant", "op", "comm_name", "comm_hash", "nranks"),
        add=("calls", "total_bytes", "total_ns"),
        most=("slowest_ns",),
        means={"mean_ns": ("total_ns", "calls")},
        at_most=(("mean_ns", "slowest_ns"), ("slowest_ns", "total_ns")),
    ),
    "net_bytes": Columns(
        keys=("tenant", "family", "peer"),
        add=("sent_bytes", "received_bytes", "connected", "accepted"),
        most=("slowest_connect_ns",),
    ),
    "node_coverage": Columns(
        keys=("node",),
        free=dict.fromkeys(
            ("kernel", "recordings", "recorded_ns", "oldest_at_ns", "newest_at_ns", "silent_ns",
             "lost", "shed", "holes", "blind_ns", "tenant", "clock_error_ns"),
            "is of recordings, whole",
        ),
    ),
    "retransmits": Columns(
        keys=("tenant", "peer"),
        add=("retransmits", "resets_sent", "resets_received"),
        most=("last_at_ns",),
        ratios={"per_megabyte": ("retransmits", "sent_bytes", 1e6)},
        rows="""select tenant, peer, max(rtt_ns) as max_rtt_ns, avg(rtt_ns)::bigint as rtt_ns,
            sum(bytes)::bigint as sent_bytes
            from (select tenant, remote_ip as peer, rtt_ns, null as bytes from tcp_events
            join containers using (cgroup_id) union all select tenant, split_part(remote, ':', 1),
            null, bytes * weight from net_events join containers using (cgroup_id)
            where op = 'send' and family = 'tcp') group by all""",
        of_rows=("max_rtt_ns", "rtt_ns", "sent_bytes"),
        at_most=(("rtt_ns", "max_rtt_ns"),),
    ),
    "rightsize": Columns(
        keys=("tenant",),
        free=dict.fromkeys(("cpus_p50", "cpus_p99", "gpu_bytes_p50", "gpu_bytes_p99",
                            "io_bytes_p50", "io_bytes_p99"), RANK)
        | dict.fromkeys(("cpus_limit", "memory_limit_bytes", "period_ns"), LEVEL)
        | dict.fromkeys(("cpus_peak", "io_bytes_peak", "gpu_bytes_peak", "throttled_ns"),
                        "is of whole seconds, which a window cuts"),
        at_most=(("cpus_p50", "cpus_p99"), ("cpus_p99", "cpus_peak"),
                 ("gpu_bytes_p50", "gpu_bytes_p99"), ("gpu_bytes_p99", "gpu_bytes_peak"),
                 ("io_bytes_p50", "io_bytes_p99"), ("io_bytes_p99", "io_bytes_peak")),
    ),
    "slow_calls": Columns(
        keys=("tenant", "api"),
        add=("calls", "total_ns"),
        most=("slowest_ns",),
        free={"p99_ns": RANK, "slowest_at_ns": CALL},
        means={"mean_ns": ("total_ns", "calls")},
        at_most=(("mean_ns", "slowest_ns"), ("p99_ns", "slowest_ns"), ("slowest_ns", "total_ns")),
    ),
    "slow_collectives": Columns(
        free=dict.fromkeys(
            ("tenant", "op", "comm_hash", "turn", "began_at_ns", "late_ns", "late_rank",
             "ranks_seen", "nranks", "bytes", "slowest_ns"),
            "is of a single collective",
        ),
    ),
    "slow_nodes": Columns(
        free=dict.fromkeys(
            ("node", "slowdown", "tenant", "kernel_name", "here_ns", "elsewhere_ns", "spans",
             "nodes"),
            MODEL,
        ),
    ),
    "sync_stalls": Columns(
        keys=("tenant", "api", "kernel_name"),
        add=("waits", "waited_ns"),
        most=("longest_ns",),
        free={"longest_at_ns": CALL, "cpu_wait_ns": "waits for a CPU that a window cuts",
              "operations": SPANS},
        at_most=(("cpu_wait_ns", "waited_ns"), ("longest_ns", "waited_ns")),
    ),
    "team_use": Columns(
        keys=("team",),
        free={"gpu_queued_ns": SPANS, "gpu_held_ns": LEVEL, "queued_share": RATE, "cpus": RATE,
              "cpus_limit": LEVEL, "tenant": CHOSEN}
        | dict.fromkeys(("nodes", "tenants", "gpus"), "counts what is in both halves"),
    ),
    "timeline": Columns(
        free=dict.fromkeys(
            ("tenant", "began_at_ns", "tid", "family", "op", "what", "duration_ns", "after_ns",
             "bytes", "error"),
            CALL,
        ),
    ),
    "top_kernels": Columns(
        keys=("tenant", "kernel_name"),
        add=("launches", "host_ns"),
        most=("slowest_ns",),
        free=dict.fromkeys(("gpu_ns", "gpu_low_ns", "gpu_high_ns", "quality"), MODEL)
        | {"gpu_ns_source": CHOSEN},
        at_most=(("slowest_ns", "host_ns"), ("gpu_low_ns", "gpu_high_ns")),
    ),
    "under_way": Columns(
        free=dict.fromkeys(
            ("tenant", "pid", "tid", "comm", "function", "began_at_ns", "under_way_ns",
             "comm_hash", "stream"),
            CALL,
        ),
    ),
    "who_stole_cpu": Columns(
        keys=("tenant", "thief"),
        add=("waits", "waited_ns"),
        most=("max_ns",),
        free={"ran_ns": "is of whole seconds, which a window cuts", "p99_ns": RANK,
              "worst_at_ns": CALL},
        at_most=(("waited_ns", "ran_ns"), ("p99_ns", "max_ns")),
    ),
    "who_uses_what": Columns(
        keys=("tenant",),
        add=("disk_read_bytes", "disk_written_bytes", "net_sent_bytes", "net_received_bytes"),
        answers={"gpu_work_ns": ("gpu_use", "work_ns"), "gpu_queued_ns": ("gpu_use", "queued_ns")},
        free={"cpus": RATE, "cpu_percent": RATE, "gpu_percent": RATE},
    ),
}  # fmt: skip
SHARES = ("share", "idle_share", "queued_share", "quality", "rises", "p")

# Equations that do not hold in recordings, where chance decides which of them there are.
WAITS = "a wait over the cut is in no half, and its times are counted by kind"
RAN = "waits of several cgroups together are bounded by what the thief ran, in each half by itself"
CUT = "a span over the cut is of other work in each half"
KNOWN_OF_RECORDINGS: dict[tuple[str, str], str] = {
    ("halves", "sync_stalls.longest_ns"): CUT,
    ("halves", "sync_stalls.waited_ns"): CUT,
    ("halves", "sync_stalls.waits"): CUT,
    ("halves", "who_stole_cpu.max_ns"): WAITS,
    ("halves", "who_stole_cpu.waited_ns"): RAN,
    ("halves", "who_stole_cpu.waits"): WAITS,
    ("numbers", "sync_stalls.waited_ns"): "only waits that prove a span are in it",
}
