"""Files as PyTorch's profiler and nsys write them, made from the stand-in's truth log."""

import gzip
import json
import sqlite3
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RUNTIME = "cudaLaunchKernel"


@dataclass
class Ran:
    """An operation: the call that queued it, and what the device did."""

    line: dict[str, Any]
    correlation: int
    device: list[dict[str, Any]] = field(default_factory=list)

    @property
    def api(self) -> str:
        return self.line.get("outer") or self.line["api"]

    @property
    def began(self) -> int:
        return self.line.get("outer_begin") or self.line["t_begin"]

    @property
    def ended(self) -> int:
        return self.line.get("outer_end") or self.line["t_end"]


def ran(log: Path) -> list[Ran]:
    """The operations of a log that ran on the device, in order."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    calls = [
        line
        for line in lines
        if line["op"] in ("launch", "memcpy", "memset", "graph_launch") and not line["result"]
    ]
    calls = [c for c in calls if c["op"] == "graph_launch" or "device_end" in c]
    found = [Ran(c, n + 1) for n, c in enumerate(sorted(calls, key=lambda c: c["t_begin"]))]
    nodes, launches = defaultdict(list), defaultdict(list)
    for line in lines:
        if line["op"].startswith("graph_") and "device_end" in line and "t_begin" not in line:
            nodes[line["graph"]].append(line)
    for one in found:
        if one.line["op"] == "graph_launch":
            launches[one.line["graph"]].append(one)
        else:
            one.device = [one.line]
    for graph, of in launches.items():
        of_graph = sorted(nodes[graph], key=lambda line: line["device_start"])
        each = len(of_graph) // len(of)
        for number, one in enumerate(of):
            one.device = of_graph[number * each : (number + 1) * each]
    return [one for one in found if one.device]


def demangled(names: set[str]) -> dict[str, str]:
    """As profilers show them."""
    listed = sorted(names)
    said = subprocess.run(
        ["c++filt"], input="\n".join(listed), capture_output=True, text=True, check=True
    )
    return dict(zip(listed, said.stdout.splitlines(), strict=True))


def _us(ns: int) -> float:
    return ns / 1000


def torch_events(operations: list[Ran], origin: int, pid: int = 17) -> list[dict[str, Any]]:
    """Chrome's events: the pid is that of a container; times are from ``origin`` on."""
    names = demangled({d["kernel"] for one in operations for d in one.device if "kernel" in d})
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "ts": 0.0, "pid": pid, "tid": 0, "args": {}}
    ]
    for one in operations:
        kind = "cuda_driver" if one.api.startswith("cu") and one.api[2].isupper() else None
        events.append(
            {"ph": "X", "cat": kind or "cuda_runtime", "name": one.api, "pid": pid}
            | {"tid": pid + one.line["tid"] - one.line["pid"]}
            | {"ts": _us(one.began - origin), "dur": _us(one.ended - one.began)}
            | {"args": {"cbid": 211, "correlation": one.correlation}}
        )
        for device in one.device:
            at = {"ts": _us(device["device_start"] - origin), "pid": 0, "tid": 7, "ph": "X"}
            at["dur"] = _us(device["device_end"] - device["device_start"])
            args = {"device": 0, "context": 1, "stream": 7, "correlation": one.correlation}
            if device["op"].endswith(("launch", "kernel")):
                args |= {"grid": device["grid"], "block": device["block"]}
                what = {"cat": "kernel", "name": names[device["kernel"]]}
            elif device["op"].endswith("memcpy"):
                args |= {"bytes": device["bytes"]}
                name = f"Memcpy {device['direction']} (Pageable -> Device)"
                what = {"cat": "gpu_memcpy", "name": name}
            else:
                args |= {"bytes": device["bytes"]}
                what = {"cat": "gpu_memset", "name": "Memset (Device)"}
            events.append(what | at | {"args": args})
    return events


def torch_trace(path: Path, log: Path, utc_ns: int, *, off_ns: int = 0, **more: Any) -> Path:
    """A trace of a log; ``utc_ns`` is UTC minus the log's clock, which the trace's is off by."""
    operations = ran(log)
    origin = min(one.began for one in operations) - 1_000_000_000
    trace = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Stand-in GPU"}]}
    trace |= {"displayTimeUnit": "ms", "baseTimeNanoseconds": origin + utc_ns + off_ns} | more
    trace |= {"traceEvents": torch_events(operations, origin), "traceName": path.name}
    text = json.dumps(trace)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


_SCHEMA = """
create table META_DATA_EXPORT (name text, value text);
create table META_DATA_CAPTURE (name text, value text);
create table StringIds (id integer not null primary key, value text not null);
create table TARGET_INFO_SESSION_START_TIME (utcEpochNs integer, utcTime text, localTime text);
create table TARGET_INFO_GPU (id integer, name text, uuid text);
create table CUPTI_ACTIVITY_KIND_RUNTIME (
    start integer not null, end integer not null, eventClass integer not null, globalTid integer,
    correlationId integer, nameId integer not null, returnValue integer not null,
    callchainId integer
);
create table CUPTI_ACTIVITY_KIND_KERNEL (
    start integer not null, end integer not null, deviceId integer not null,
    contextId integer not null, greenContextId integer, streamId integer not null,
    correlationId integer, globalPid integer, demangledName integer not null,
    shortName integer not null, mangledName integer, launchType integer, cacheConfig integer,
    registersPerThread integer not null, gridX integer not null, gridY integer not null,
    gridZ integer not null, blockX integer not null, blockY integer not null,
    blockZ integer not null, graphNodeId integer
);
create table CUPTI_ACTIVITY_KIND_MEMCPY (
    start integer not null, end integer not null, deviceId integer not null,
    contextId integer not null, streamId integer not null, correlationId integer,
    globalPid integer, bytes integer not null, copyKind integer not null
);
create table CUPTI_ACTIVITY_KIND_MEMSET (
    start integer not null, end integer not null, deviceId integer not null,
    contextId integer not null, streamId integer not null, correlationId integer,
    globalPid integer, value integer not null, bytes integer not null
);
"""
_KINDS = {"HtoD": 1, "DtoH": 2, "DtoD": 8, "HtoH": 9}


def nsys_export(
    path: Path, logs: list[Path], utc_ns: int, *, off_ns: int = 0, version: str = "3.22.1"
) -> Path:
    """An export of several processes; their ids are those of a container."""
    logged = [ran(log) for log in logs]
    origin = min(one.began for operations in logged for one in operations) - 1_000_000_000
    strings: dict[str, int] = {}

    def number(text: str) -> int:
        return strings.setdefault(text, len(strings))

    with sqlite3.connect(path) as database:
        database.executescript(_SCHEMA)
        major, minor, micro = version.split(".")
        for name, value in (("", version), ("_MAJOR", major), ("_MINOR", minor), ("_MICRO", micro)):
            database.execute(
                "insert into META_DATA_EXPORT values (?, ?)",
                (f"EXPORT_SCHEMA_VERSION{name}", value),
            )
        database.execute(
            "insert into TARGET_INFO_SESSION_START_TIME values (?, '', '')",
            (origin + utc_ns + off_ns,),
        )
        for place, operations in enumerate(logged):
            _add(database, operations, origin, number, (17 + place) << 24)
        database.executemany(
            "insert into StringIds values (?, ?)", [(n, text) for text, n in strings.items()]
        )
    return path


def _add(database: Any, operations: list[Ran], origin: int, number: Any, process: int) -> None:
    names = demangled({d["kernel"] for one in operations for d in one.device if "kernel" in d})
    for one in operations:
        thread = process | (1 + one.line["tid"] - one.line["pid"])
        times = one.began - origin, one.ended - origin
        row = (*times, 0, thread, one.correlation, number(f"{one.api}_v7000"), 0, None)
        _insert(database, "RUNTIME", row)
        for device in one.device:
            start, end = device["device_start"] - origin, device["device_end"] - origin
            if device["op"].endswith(("launch", "kernel")):
                name = number(names[device["kernel"]])
                place = (start, end, 0, 1, None, 7, one.correlation, process)
                shape = (*device["grid"], *device["block"])
                words = (name, name, number(device["kernel"]), 1, 0, 32)
                _insert(database, "KERNEL", (*place, *words, *shape, None))
                continue
            place = (start, end, 0, 1, 7, one.correlation, process)
            if device["op"].endswith("memcpy"):
                copied = (device["bytes"], _KINDS[device["direction"]])
                _insert(database, "MEMCPY", (*place, *copied))
            else:
                _insert(database, "MEMSET", (*place, 0, device["bytes"]))


def _insert(database: Any, table: str, row: tuple[Any, ...]) -> None:
    marks = ", ".join("?" * len(row))
    database.execute(f"insert into CUPTI_ACTIVITY_KIND_{table} values ({marks})", row)
