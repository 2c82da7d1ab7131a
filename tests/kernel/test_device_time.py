"""Spans and certain intervals against the device's own account, for each style of waiting."""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import chain, product
from pathlib import Path

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import find
from tests.kernel.conftest import Cgroup, Recording, record
from tests.kernel.script import WAIT_BY, Script, warm

STYLES = ("stream", "context", "event", "query", "copy")
SHAPES = ("plain", "graph", "small")
KERNELS = {"COTENANT_SIM_KERNEL_NS": "*=1500000", "COTENANT_SIM_INIT_MS": "0"}
STEPS = 23

PLAYER = """
style, shape, spins, steps = {style!r}, {shape!r}, {spins}, {steps}
from ctypes import c_size_t
context, module = start()
kernel = out("cuModuleGetFunction", module, b"timed")
memory = out("cuMemAlloc_v2", c_size_t(1 << 20))
host = ctypes.create_string_buffer(1 << 20)
# What waits by a copy on the default stream waits for blocking streams only.
stream = out("cuStreamCreate", 0 if style == "copy" else 1)
event = out("cuEventCreate", 2)
if shape == "graph":
    graph = c_uint64()
    call("cuStreamBeginCapture_v2", stream, 0)
    launch(kernel, stream, times=2)
    call("cuStreamEndCapture", stream, byref(graph))
    exec_ = out("cuGraphInstantiateWithFlags", graph.value, c_uint64(0))

call("cuCtxSynchronize")
for step in range(steps):
    if shape == "small":
        call("cuMemcpyHtoD_v2", memory, host, c_size_t(4096))
    if shape == "graph":
        call("cuGraphLaunch", exec_, stream)
    else:
        launch(kernel, stream, times=1 + step % 2)
    wait_by(style, stream, event, host, memory, spins)
    time.sleep(0.002)
if style == "never":
    time.sleep(1.7e-3 * steps)
"""

# The contexts of two GPUs; what one waits for says nothing of the other.
TWO_GPUS = """
call("cuInit", 0)
contexts = [out("cuDevicePrimaryCtxRetain", device) for device in (0, 1)]
kernels = []
for context in contexts:
    call("cuCtxSetCurrent", context)
    module = out("cuModuleLoadData", b"image")
    kernels.append([out("cuModuleGetFunction", module, n) for n in (b"brief", b"lengthy")])
streams = []
for context in contexts:
    call("cuCtxSetCurrent", context)
    streams.append(out("cuStreamCreate", 1))
for turn in range(5):
    call("cuCtxSetCurrent", contexts[1])
    launch(kernels[1][1], streams[1])
    launch(kernels[1][1], 0)
    call("cuCtxSetCurrent", contexts[0])
    launch(kernels[0][0], streams[0])
    launch(kernels[0][0], 0)
    call("cuCtxSynchronize")
    call("cuStreamSynchronize", c_void_p(0))
    time.sleep(0.03)
    call("cuCtxSetCurrent", contexts[1])
    call("cuCtxSynchronize")
    time.sleep(0.005)
"""
GPUS = {
    "COTENANT_SIM_DEVICES": "2",
    "COTENANT_SIM_KERNEL_NS": "brief=1500000,lengthy=20000000",
    "COTENANT_SIM_INIT_MS": "0",
}

Intervals = list[tuple[int, int]]


def union(intervals: Iterable[tuple[int, int]]) -> Intervals:
    """The same times, in order and without overlap."""
    found: Intervals = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        elif end > start:
            found.append((start, end))
    return found


def length(intervals: Iterable[tuple[int, int]]) -> int:
    return sum(end - start for start, end in union(intervals))


def outside(inner: Intervals, outer: Intervals) -> int:
    """How much of one is not in the other."""
    return length([*inner, *outer]) - length(outer)


def on_device(log: Path) -> dict[int, Intervals]:
    """When the device worked for each context, by the stand-in's own account."""
    found = defaultdict(list)
    for line in map(json.loads, log.read_text().splitlines()):
        if "device_end" in line:
            found[line["context"]].append((line["device_start"], line["device_end"]))
    return {context: union(intervals) for context, intervals in found.items()}


def spans(recording: Recording, pid: int) -> tuple[dict[int, Intervals], Intervals]:
    """Spans by context, and what is certain; on the clock of the log."""
    (row,) = recording.sql("select wall_offset_ns from sessions")
    offset = row["wall_offset_ns"]
    rows = recording.sql(f"select * from spans where pid = {pid} order by start_ns")
    by_context = defaultdict(list)
    for span in rows:
        by_context[span["context"]].append((span["start_ns"] - offset, span["end_ns"] - offset))
    certain = [
        (span["certain_from_ns"] - offset, span["certain_until_ns"] - offset)
        for span in rows
        if span["certain_from_ns"] is not None
    ]
    return by_context, certain


def waited_for_cpu(recording: Recording, pid: int, inside: Intervals) -> int:
    """How long of this its threads waited for a CPU: what a busy host adds to its spans."""
    (row,) = recording.sql("select wall_offset_ns from sessions")
    waits = recording.sql(
        "select timestamp_ns as start, timestamp_ns + duration_ns as until from host_events "
        f"where pid = {pid} and (op = 'runqueue' or (op = 'switch' and state = 'R'))"
    )
    offset = row["wall_offset_ns"]
    waited = union((wait["start"] - offset, wait["until"] - offset) for wait in waits)
    return length(waited) - outside(waited, inside)


def host_late(log: Path) -> int:
    """How much later than the device waiting calls returned: the host's timers, and its CPUs."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    ends = sorted(line["device_end"] for line in lines if "device_end" in line)
    late = 0
    for line in lines:
        if line["op"] in ("wait", "sync", "query", "memcpy") and line.get("t_end"):
            before = bisect_right(ends, line["t_end"])
            if before and ends[before - 1] > line["t_begin"]:
                late += line["t_end"] - ends[before - 1]
    return late


def check_contained(recording: Recording, pid: int, log: Path) -> dict[int, Intervals]:
    """No context works outside of its spans."""
    by_context, _ = spans(recording, pid)
    device = on_device(log)
    for context, worked in device.items():
        assert outside(worked, by_context[context]) == 0, (pid, context)
    return device


def test_spans_contain_what_the_device_did_and_what_is_certain_is_no_more(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    played: dict[tuple[str, str, int], tuple[int, Path]] = {}
    tenants: dict[tuple[str, str, int], str] = {}
    with record(store) as recording:
        warm(recording, cgroups())
        for style, shape, spin in product((*STYLES, "never"), SHAPES, (0, 1)):
            if style == "never" and spin:
                continue
            log = tmp_path / f"{style}-{shape}-{spin}.jsonl"
            text = WAIT_BY + PLAYER.format(style=style, shape=shape, spins=spin, steps=STEPS)
            more = {**KERNELS, "COTENANT_SIM_SPIN": str(spin), "COTENANT_SIM_LOG": str(log)}
            group = cgroups()
            script = Script(group, text, **more)
            script.end()
            played[style, shape, spin] = script.pid, log
            tenants[style, shape, spin] = f"/{group.name}"
        log = tmp_path / "two.jsonl"
        two = Script(cgroups(), TWO_GPUS, COTENANT_SIM_LOG=str(log), **GPUS)
        two.end()
    with Session(store) as session:
        estimates = {row["tenant"]: row for row in session.ask(find("gpu_use").render()).rows()}
    for who, (pid, own) in played.items():
        device = length(chain(*check_contained(recording, pid, own).values()))
        by_context, certain = spans(recording, pid)
        every = union(chain(*by_context.values()))
        high, low = length(every), length(certain)
        busy = waited_for_cpu(recording, pid, every)
        estimate, late = estimates[tenants[who]], host_late(own)
        told = [estimate[f"gpu_time{name}_ns"] for name in ("_ci_low", "", "_ci_high")]
        print(
            who, *(round(ns / device, 3) for ns in (high, low, busy, late, *told)),
            estimate["source"],
        )  # fmt: skip
        assert low <= device + late, who
        assert told[0] <= device + late, who
        assert device <= told[2], who
        if who[0] == "never":
            assert low == 0
            continue
        assert high - busy <= 1.5 * device, who
        # What the host was busy with meanwhile is not certain.
        assert low + busy >= 0.5 * device, who
        assert abs(told[1] - device) <= 0.05 * device + max(late, busy), who
    assert len(check_contained(recording, two.pid, log)) == 2
