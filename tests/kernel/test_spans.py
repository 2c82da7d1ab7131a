"""Spans that the recorder stores, on real probes: against SQL over its rows, and the truth."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kernel.conftest import SIM, Cgroup, Recording, record, sim_environment, truth
from tests.kernel.script import Script, warm
from tests.virtual.rings import stored_and_derived

WORKLOAD = SIM / "workload"
MIXED = ["mix", "--api", "driver", "--streams", 5, "--threads", 3, "--kernels", 6]

# Default streams of both kinds, a graph, a fork, a wait for an event, and work left at the end.
SCRIPT = """
context, module = start()
kernel = out("cuModuleGetFunction", module, b"kernel")
a, b = out("cuStreamCreate", 1), out("cuStreamCreate", 1)
event, graph = out("cuEventCreate", 0), c_uint64()
call("cuStreamBeginCapture_v2", a, 0)
launch(kernel, a, times=3)
call("cuStreamEndCapture", a, byref(graph))
exec_ = out("cuGraphInstantiateWithFlags", graph.value, c_uint64(0))

def work():
    for turn in range(23):
        call("cuGraphLaunch", exec_, a)
        for stream in (0, 1, 2, a, b):
            launch(kernel, stream, times=3)
        call("cuEventRecord", event, a)
        call("cuEventSynchronize", event)
        call("cuStreamSynchronize", (a, b, c_void_p(2), c_void_p(0))[turn % 4])
        if turn % 5 == 0:
            call("cuCtxSynchronize")
    call("cuStreamSynchronize", b)
    launch(kernel, b, times=7)

call("cuCtxSynchronize")
threads = [threading.Thread(target=lambda: (call("cuCtxSetCurrent", context), work()))
           for _ in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
launch(kernel, b, times=11)
"""

# Far over its budget, on one CPU: the last launch stands for all that were shed before it.
FLOOD = """
os.sched_setaffinity(0, {0})
context, module = start()
kernel = out("cuModuleGetFunction", module, b"kernel")
stream = out("cuStreamCreate", 1)
for _ in range(40):
    launch(kernel, stream, times=1009)
    call("cuStreamSynchronize", stream)
time.sleep(2.1)
launch(kernel, stream)
call("cuStreamSynchronize", stream)
"""
# Each kernel is longer than its launch: the device does not wait for the host.
SLOW = {"COTENANT_SIM_KERNEL_NS": "*=1500000", "COTENANT_SIM_COPY": "0"}
STEPS = 101
FLOODED = 40 * 1009 + 1


def _run(cgroup: Cgroup, *words: object, log: Path | None = None, **more: str) -> Any:
    return cgroup.popen([WORKLOAD, *words], env=sim_environment(log, **more))


def _union_ns(intervals: list[tuple[int, int]]) -> int:
    total, until = 0, 0
    for start, end in sorted(intervals):
        total += max(end - max(start, until), 0)
        until = max(until, end)
    return total


def _check_busy(recording: Recording, tenant: Cgroup, log: Path) -> None:
    """Busy is at least what the device worked, at most from first calls to the waits' returns."""
    worked, flights, began, inside = [], [], None, 0
    for line in truth(log):
        if "device_end" in line:
            worked.append((line["device_start"], line["device_end"]))
            began = began or line["t_begin"]
        elif line["op"] == "sync" and began:
            flights.append((began, line["t_end"]))
            began = None
        if "device_end" in line or line["op"] == "sync":
            inside += line["t_end"] - line["t_begin"]
    who = f"join containers using (cgroup_id) where cgroup_path = '/{tenant.name}'"
    (busy,) = recording.sql(f"select sum(queued_ns)::bigint as ns from gpu_seconds {who}")
    (calls,) = recording.sql(
        f"select sum(duration_ns)::bigint as ns, count(*) as n from cuda_events {who} "
        "and op in ('launch', 'memcpy', 'sync')"
    )
    assert len(flights) == STEPS
    assert calls["n"] == len(worked) + STEPS + 1
    # A call is seen to begin before the library's clock starts, and to return after it stops.
    around = calls["ns"] - inside
    assert _union_ns(worked) <= busy["ns"] <= _union_ns(flights) + around


def _told_by_rows(spans: list[dict[str, Any]], by_events: set[int]) -> list[dict[str, Any]]:
    """Without what rows do not say: what was recorded in events, and which streams are blocking."""
    return [
        {name: value for name, value in span.items() if name != "streams"}
        for span in spans
        if span["pid"] not in by_events and (span["launches"] or span["stream"])
    ]


def test_stored_spans_are_those_that_follow_from_rows(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    early, mixed, scripted, flood, killed, timed = (cgroups() for _ in range(6))
    log = tmp_path / "truth.jsonl"
    before = _run(early, "train", "--api", "driver", "--steps", 1_000_000, "--rate", 211)
    with record(store, "--events", "cuda", "--budget", "1%") as recording:
        warm(recording, scripted)
        running = [_run(mixed, *MIXED, "--steps", 4_001, "--seed", seed) for seed in (1, 2)]
        flooding = Script(flood, FLOOD)
        left = _run(killed, "launch", "--api", "driver", "--steps", 1_000_000, "--rate", 509)
        running.append(_run(timed, "train", "--api", "driver", "--steps", STEPS, log=log, **SLOW))
        Script(scripted, SCRIPT).end()
        flooding.end()
        for process in running:
            process.communicate(timeout=60)
        left.kill()
        left.communicate()
        time.sleep(2.5)  # Its end has settled, while others go on.
    before.kill()
    before.communicate()
    stored, derived = stored_and_derived(store)
    by_events = {span["pid"] for span in stored if "Event" in (span["proof_api"] or "")}
    assert len(_told_by_rows(stored, by_events)) > 100
    assert _told_by_rows(stored, by_events) == _told_by_rows(derived, by_events)
    closed = {row["closed_by"] for row in recording.sql("select closed_by from spans")}
    assert closed == {"wait", "copy", "exit", "stop"}
    (counts,) = recording.sql(
        "select sum(launches)::bigint as launches, max(shed) as shed from spans "
        f"where pid = {flooding.pid}"
    )
    (others,) = recording.sql(
        "select coalesce(sum(weight), 0)::bigint as n from cuda_events join containers "
        f"using (cgroup_id) where cgroup_path = '/{flood.name}' and op = 'launch' "
        "and kernel_name = '[not recorded]'"
    )
    assert counts["launches"] + others["n"] == FLOODED
    assert counts["shed"] > 0
    _check_busy(recording, timed, log)
