"""Tables that are not events: who was there, what was counted, what was lost."""

from collections.abc import Iterable
from typing import Final

from cotenant.schema.families import FAMILIES, GPU_FAMILIES
from cotenant.schema.table import Column, Table


def _one_of(families: Iterable[str]) -> str:
    *first, last = families
    return f"{', '.join(first)} or {last}"


CONTAINERS: Final = Table(
    "containers",
    "Every cgroup ever seen, and whose it is; exactly one row per cgroup_id.",
    (
        Column(
            "cgroup_id", "int64", "joins every event table; unique across boots and nodes", False
        ),
        Column(
            "kernel_cgroup_id", "int64", "the kernel's own id, unique in one hierarchy and boot"
        ),
        Column("hierarchy", "int32", "cgroup hierarchy of kernel_cgroup_id; 0 is version 2"),
        Column("cgroup_path", "string", "path of the cgroup below its hierarchy's root"),
        Column(
            "container_id", "string", "outermost identity the host named; else the tenant", False
        ),
        Column(
            "inner_container_id", "string", "innermost container id; a tenant could have chosen it"
        ),
        Column("name", "string", "the container's name, as its runtime knows it"),
        Column("runtime", "string", "docker, containerd, cri-o, podman, slurm, systemd, ..."),
        Column("image", "string", "the container's image"),
        Column("labels", "string", "the container's labels, as a JSON object"),
        Column("pod", "string", "Kubernetes pod name"),
        Column("namespace", "string", "Kubernetes namespace"),
        Column("pod_uid", "string", "Kubernetes pod uid"),
        Column("qos", "string", "guaranteed, burstable or besteffort"),
        Column("unit", "string", "systemd unit of the host's manager"),
        Column("slurm_job", "string", "Slurm job id, or SLUID where only that is known"),
        Column("slurm_step", "string", "Slurm step"),
        Column("user", "string", "the user it runs for"),
        Column("tenant", "string", "the one name to show", False),
        Column("trust", "string", "host, user, nested or unverified: who vouches for the name"),
        Column("sharing_mode", "string", "exclusive, timeslice, mps or mig, where it can be told"),
        Column("node", "string", "the host", False),
        Column("boot_id", "string", "the host's boot", False),
        Column(
            "created_ns", "int64", "when the cgroup was made, UTC; NULL if before the recording"
        ),
        Column("named_ns", "int64", "when its name became known, UTC"),
        Column("removed_ns", "int64", "when the cgroup was removed, UTC"),
        Column(
            "scope",
            "string",
            "fleet: the tenant of this name on other nodes is the same; node: it is another",
        ),
        Column("slurm_account", "string", "account that the Slurm job is charged to"),
    ),
    snapshot=True,
)

TOTALS: Final = Table(
    "totals",
    "Exact counts per tenant and function and second, whatever happened to the rows.",
    (
        Column("timestamp_ns", "int64", "end of the second, UTC", False),
        Column("cgroup_id", "int64", "joins containers", False),
        Column("family", "string", _one_of(FAMILIES), False),
        Column("function", "string", "the function or kind of event", False),
        Column("count", "int64", "calls that ended in this second", False),
        Column("sum_ns", "int64", "their durations added up", False),
        Column("max_ns", "int64", "the longest of them", False),
        Column("histogram", "list<int64>", "calls by log2 of the duration in ns", False),
        Column("bytes", "int64", "bytes moved, where the function moves any"),
        Column(
            "unmeasured",
            "int64",
            "of the calls, those without a duration: over budget, or never returned",
        ),
        Column("since_ns", "int64", "end of the sample before, UTC: what is counted came after"),
        Column("operations", "int64", "rows that there would be with nothing left out"),
    ),
    united=True,
)

LOSSES: Final = Table(
    "losses",
    "Per family, tenant and window: seen = stored + shed + lost + queued. "
    "And holes: times in which something went unseen.",
    (
        Column("timestamp_ns", "int64", "end of the window, UTC", False),
        Column("family", "string", _one_of(FAMILIES), False),
        Column("cgroup_id", "int64", "joins containers", False),
        Column("seen", "int64", "events that were to become rows", False),
        Column("stored", "int64", "rows sealed", False),
        Column("shed", "int64", "left out on purpose, within the weight of rows", False),
        Column("lost", "int64", "dropped: the ring was full, or the store behind", False),
        Column(
            "queued",
            "int64",
            "on their way when the window ended; negative when catching up",
            False,
        ),
        Column("reason", "string", "why events were lost, shed or unseen"),
        Column("from_ns", "int64", "since when something is missing, UTC; NULL where nothing is"),
        Column("to_ns", "int64", "until when"),
        Column("unseen", "int64", "of a hole: how much went unseen; NULL if that is not known"),
    ),
)

SESSIONS: Final = Table(
    "sessions",
    "Each recording: where, when, what was attached, what was refused.",
    (
        Column("session_id", "string", "this recording", False),
        Column("node", "string", "the host", False),
        Column("boot_id", "string", "the host's boot", False),
        Column("kernel", "string", "kernel release", False),
        Column("started_ns", "int64", "when the probes were attached, UTC", False),
        Column("ended_ns", "int64", "when it ended, UTC; NULL while it runs or if it was killed"),
        Column("wall_offset_ns", "int64", "UTC minus CLOCK_MONOTONIC when last sampled", False),
        Column("attach_method", "string", "session, multi or pair", False),
        Column("layers", "string", "driver, both or auto, and what auto came to", False),
        Column("hierarchy", "string", "which cgroup hierarchy names tenants", False),
        Column("libraries", "string", "per library: path, probes attached, refused and why (JSON)"),
        Column("attach_gap_ns", "int64", "longest time a library was mapped before its probes"),
        Column("coverage", "string", "launches seen at each layer, by process; the last 64 (JSON)"),
        Column("notes", "string", "what else the recording has to say about itself (JSON)"),
        Column(
            "spans_until_ns",
            "int64",
            "operations that began before, UTC, are in stored spans; NULL: all are",
        ),
        Column(
            "clock_error_ns",
            "int64",
            "how far the host's clock may be from UTC, when last sampled; NULL: nothing keeps it",
        ),
    ),
    snapshot=True,
)

IN_FLIGHT: Final = Table(
    "in_flight",
    "Calls under way when last looked at, each second.",
    (
        Column("timestamp_ns", "int64", "when it was looked at, UTC", False),
        Column("pid", "int32", "process id in the host's pid namespace", False),
        Column("tid", "int32", "thread id in the host's pid namespace", False),
        Column("cgroup_id", "int64", "joins containers", False),
        Column("comm", "string", "name of the thread", False),
        Column("family", "string", _one_of(GPU_FAMILIES), False),
        Column("function", "string", "the outermost probed function", False),
        Column("began_ns", "int64", "when the call began, UTC", False),
        Column("comm_hash", "int64", "NCCL communicator"),
        Column("stream", "int64", "CUDA stream"),
    ),
)

GPU_MEMORY: Final = Table(
    "gpu_memory",
    "Device bytes held per cgroup and GPU, whenever they changed, and every ten minutes; of more "
    "than 64 changes in a second, the highest.",
    (
        Column("timestamp_ns", "int64", "when it was so, UTC", False),
        Column("cgroup_id", "int64", "joins containers", False),
        Column("gpu", "string", "UUID of the GPU"),
        Column("bytes", "int64", "physical bytes held; NULL until a baseline exists"),
        Column("allocations", "int64", "live allocations behind them"),
    ),
)

GRAPH_KERNELS: Final = Table(
    "graph_kernels",
    "What a CUDA graph runs: kernels and how often each occurs in it.",
    (
        Column("timestamp_ns", "int64", "when it was learned, UTC", False),
        Column("cgroup_id", "int64", "joins containers", False),
        Column("graph", "string", "joins cuda_events.graph", False),
        Column("version", "int32", "grows with each update that changes its kernels", False),
        Column("kernel_name", "string", "the kernel", False),
        Column("nodes", "int64", "how many nodes of the graph run it", False),
    ),
)

GPU_TIMINGS: Final = Table(
    "gpu_timings",
    "Device times that applications or profilers measured; cuda_events shows them as gpu_ns.",
    (
        Column("timestamp_ns", "int64", "when the operation began, as in cuda_events", False),
        Column("pid", "int32", "process id in the host's pid namespace", False),
        Column("tid", "int32", "thread that began the operation", False),
        Column("cgroup_id", "int64", "joins containers", False),
        Column("gpu_ns", "int64", "time between the two events around it, or imported", False),
        Column("asked_ns", "int64", "when the application asked, or it was imported, UTC", False),
        Column("source", "string", "elapsed, or imported from a profiler's file; NULL: elapsed"),
    ),
)

IMPORTED_TIMES: Final = Table(
    "imported_times",
    "What profilers measured of each kernel, copy and graph: evidence of operation_times.",
    (
        Column("timestamp_ns", "int64", "when the first of them was queued, UTC", False),
        Column("cgroup_id", "int64", "joins containers", False),
        Column("gpu", "string", "as in cuda_events"),
        Column("kernel_name", "string", "as in cuda_events", False),
        Column("size", "int64", "threads of a launch, bytes of a copy", False),
        Column("samples", "int64", "operations that were measured", False),
        Column("low_ns", "float64", "a tenth of them took no longer", False),
        Column("time_ns", "float64", "three in ten took no longer", False),
        Column("high_ns", "float64", "six in ten took no longer", False),
    ),
    holds=True,
)

ROLLUPS: Final = Table(
    "rollups",
    "Per tenant, function and second; kept longer than rows.",
    (
        Column("timestamp_ns", "int64", "start of the second, UTC", False),
        Column("cgroup_id", "int64", "joins containers", False),
        Column("family", "string", _one_of(FAMILIES), False),
        Column("op", "string", "kind of event", False),
        Column("name", "string", "kernel, collective, device or peer"),
        Column("count", "int64", "events", False),
        Column("sum_ns", "int64", "their durations added up"),
        Column("max_ns", "int64", "the longest of them"),
        Column("bytes", "int64", "bytes moved"),
    ),
    united=True,
)

LIMITS: Final = Table(
    "limits",
    "What each cgroup is allowed, whenever it changed, and every ten minutes.",
    (
        Column("timestamp_ns", "int64", "when it was seen, UTC", False),
        Column("cgroup_id", "int64", "joins containers", False),
        Column("cpus", "float64", "CPUs it may keep busy; NULL if it has no quota"),
        Column("memory_bytes", "int64", "bytes of memory it may hold; NULL if it has no limit"),
    ),
)

SPANS: Final = Table(
    "spans",
    "Work of a process on a stream: from its first operation to the call that proves it done.",
    (
        Column("timestamp_ns", "int64", "when it began, UTC", False),
        Column("cgroup_id", "int64", "joins containers", False),
        Column("pid", "int32", "process id in the host's pid namespace", False),
        Column("gpu", "string", "UUID of the GPU, else its device file if only one is open"),
        Column("context", "int64", "CUDA context of its first operation"),
        Column(
            "stream",
            "int64",
            "CUDA stream; 0 the default stream, below 0 that of a thread",
            False,
        ),
        Column(
            "end_ns",
            "int64",
            "done by then: the proving call returned; unproven: its process or the recording ended",
            False,
        ),
        Column("done_ns", "int64", "the waiting thread was woken, or its spinning wait returned"),
        Column("certain_from_ns", "int64", "its device worked from then on; NULL: not certain"),
        Column("certain_until_ns", "int64", "its device worked until then; NULL: not certain"),
        Column("proof_ns", "int64", "when the call began that proves it done; NULL if none does"),
        Column("waited_ns", "int64", "how long that call took", False),
        Column("proof_api", "string", "that call's function"),
        Column(
            "closed_by",
            "string",
            "wait, query or copy: what proved it; exit, age or stop: nothing did",
            False,
        ),
        Column("streams", "int32", "streams that the same call proved done", False),
        Column("launches", "int64", "kernels and graphs launched, shed ones included", False),
        Column("copies", "int64", "copies, shed ones included", False),
        Column("copied_bytes", "int64", "bytes that they moved", False),
        Column("collectives", "int64", "rows of operations that NCCL queued", False),
        Column("total_extent", "float64", "sizes of all, in threads; 25 bytes are one", False),
        Column("mix", "int64", "its operations; joins span_mixes; NULL if too many to keep"),
        Column("shed", "int64", "of its operations, those without a row of their own", False),
        Column("lost", "bool", "whether rows of its tenant were lost meanwhile", False),
    ),
    united=True,
)

SPAN_MIXES: Final = Table(
    "span_mixes",
    "What spans are made of: each distinct mix of operations once an hour for each tenant.",
    (
        Column("timestamp_ns", "int64", "when it was written, UTC", False),
        Column("cgroup_id", "int64", "joins containers", False),
        Column("mix", "int64", "joins spans; the same for the same operations on any host", False),
        Column("kernel_name", "string", "as in cuda_events", False),
        Column("size", "int64", "threads of a launch, bytes of a copy"),
        Column("count", "int64", "how often the mix has it", False),
    ),
    united=True,
    holds=True,
)

GPU_SECONDS: Final = Table(
    "gpu_seconds",
    "Per second, tenant and GPU. Rows of the same second add up; memory is the largest of theirs.",
    (
        Column("timestamp_ns", "int64", "start of the second, UTC", False),
        Column("cgroup_id", "int64", "joins containers; one for all cgroups of a tenant", False),
        Column("gpu", "string", "UUID of the GPU, else its device file if only one is open"),
        Column("queued_ns", "int64", "time with work of the tenant in flight", False),
        Column("overlapped_ns", "int64", "of that, time with work of others in flight, too", False),
        Column(
            "unproven_ns", "int64", "of queued_ns, time in spans that no call proves done", False
        ),
        Column("launches", "int64", "kernels and graphs launched", False),
        Column("waits", "int64", "calls that waited for the GPU", False),
        Column("waited_ns", "int64", "time inside them, in the second in which they began", False),
        Column("copied_bytes", "int64", "bytes copied", False),
        Column("memory_bytes", "int64", "device memory held; NULL if not known"),
        Column("told_ns", "int64", "when this row was written, UTC", False),
    ),
    united=True,
)

GPU_OVERLAPS: Final = Table(
    "gpu_overlaps",
    "Per second and pair of tenants on a GPU: both had work in flight. Rows of one second add up.",
    (
        Column("timestamp_ns", "int64", "start of the second, UTC", False),
        Column("cgroup_id", "int64", "joins containers; one for all cgroups of a tenant", False),
        Column("other_cgroup_id", "int64", "the other tenant; joins containers", False),
        Column("gpu", "string", "UUID of the GPU, else its device file if only one is open"),
        Column("overlap_ns", "int64", "time with work of both in flight", False),
    ),
    united=True,
)

CPU_CONTENTION: Final = Table(
    "cpu_contention",
    "Per second: how long a tenant's threads waited for a CPU, by who had it meanwhile.",
    (
        Column("timestamp_ns", "int64", "end of the second, UTC", False),
        Column("cgroup_id", "int64", "whose threads waited; joins containers", False),
        Column("peer_cgroup_id", "int64", "who had the CPU; NULL: nobody known"),
        Column(
            "waited_ns",
            "int64",
            "for how long; on each CPU, the union of the waits of all its threads",
            False,
        ),
        Column("since_ns", "int64", "end of the sample before, UTC: the waits came after"),
    ),
)

DIMENSIONS: Final = (
    CONTAINERS,
    TOTALS,
    LOSSES,
    SESSIONS,
    IN_FLIGHT,
    GPU_MEMORY,
    GRAPH_KERNELS,
    GPU_TIMINGS,
    IMPORTED_TIMES,
    ROLLUPS,
    LIMITS,
    SPANS,
    SPAN_MIXES,
    GPU_SECONDS,
    GPU_OVERLAPS,
    CPU_CONTENTION,
)
