"""Does preemption harm? A canary without and with the remedy, and threads without end."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from cotenant._native import OBJECTS, load
from cotenant.errors import ProbeError
from cotenant.probes import syscalls
from cotenant.probes.attach import PROGRAMS, Attacher, Method, Placed
from cotenant.probes.elf import Elf
from cotenant.probes.function import CallFamily, Flag, Function, Library
from cotenant.query.engine.session import Session
from cotenant.schema.constants import FUNCTIONS_MAX
from vm.guest.host import SIM, new_group
from vm.guest.recording import Recorder

CANARY: Final = Path(__file__).with_name("canary.bpf.o")
_CALL: Final = """
from cotenant._native import probe_here
print("ready", flush=True)
while True:
    probe_here()
"""
_CANARY_S: Final = 8.0
_CALLERS: Final = 3
_SITE: Final = "cotenant_probe_here"
_HERE: Final = Function(
    FUNCTIONS_MAX - 1,
    Library.NCCL,
    _SITE,
    op="AllReduce",
    family=CallFamily.NCCL,
    flags=Flag.OPERATION,
)


def canary(job: dict[str, Any]) -> dict[str, Any]:
    """By method and variant: runs of the program, and in how many its stack was written to."""
    found: dict[str, Any] = {}
    for method in Method:
        for variant in ("unguarded", "guarded"):
            try:
                found[f"{method} {variant}"] = _watch(method, variant)
            except (OSError, ProbeError) as error:
                found[f"{method} {variant}"] = str(error)
    return found


def _watch(method: Method, variant: str) -> list[int]:
    kinds = PROGRAMS[method]
    loaded, maps = load(
        path=str(CANARY), programs={variant: next(iter(kinds.values()))}, shared={}, sizes={},
        constants={},
    )  # fmt: skip
    path = next(OBJECTS.parent.glob("_drain*.so"))
    with path.open("rb") as file, Elf(file.fileno()) as elf:
        offset = elf.find([_SITE])[_SITE]
    programs = {f"{CallFamily.NCCL}_{name}": loaded[variant] for name in kinds}
    attachment = Attacher(method, programs).attach(str(path), [Placed(_HERE, offset)])
    callers = [
        subprocess.Popen([sys.executable, "-c", _CALL], stdout=subprocess.PIPE)
        for _ in range(_CALLERS)
    ]
    for caller in callers:
        assert caller.stdout is not None
        caller.stdout.readline()
    time.sleep(_CANARY_S)
    for caller in callers:
        caller.kill()
        caller.communicate()
    counts = _counts(maps["canaries"])
    attachment.close()
    for fd in (*loaded.values(), *maps.values()):
        os.close(fd)
    return counts


def _counts(fd: int) -> list[int]:
    _, values = syscalls.map_items(fd, 4, 8)
    return [int.from_bytes(values[at : at + 8], "little") for at in range(0, len(values), 8)]


def storm(job: dict[str, Any]) -> dict[str, Any]:
    """Eight threads in probed functions, round after round; what was called and what is stored."""
    recorder = Recorder(
        Path("/root/storm"), ("--budget", "off", *job.get("options", ())), job.get("admin", True)
    )
    holder = _hold_library()
    refusal = recorder.start()
    if refusal is not None:
        return {"refused": refusal}
    groups = [new_group(f"storm{number}") for number in range(4)]
    deadline = time.monotonic() + job["storm_s"]
    called: dict[int, int] = {}
    rounds = 0
    while time.monotonic() < deadline:
        called |= _round(groups, 1999)
        rounds += 1
    holder.kill()
    holder.communicate()
    code = recorder.stop()
    stored = _stored(recorder.store, list(called))
    return {
        "code": code,
        "rounds": rounds,
        "called": sum(called.values()),
        "stored": sum(stored.values()),
        "equal": called == stored,
        "losses": _losses(recorder.store),
        "errors": recorder.errors.read_text()[-2000:],
    }


def _hold_library() -> "subprocess.Popen[str]":
    """Somebody who has the library mapped all the time, so that it stays probed."""
    ready = Path("/root/holder.ready")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(SIM)}
    holder = new_group("holder").popen(
        [SIM / "workload", "--ready", ready, "--start-on", "/root/never"],
        env=environment, stdout=subprocess.PIPE,
    )  # fmt: skip
    while not ready.exists():
        time.sleep(0.1)
    return holder


def _round(groups: list[Any], steps: int) -> dict[int, int]:
    """Two threads in each of four tenants; launches by process, as each counted them."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(SIM)}
    words = [SIM / "workload", "launch", "--api", "driver", "--threads", "2", "--spin-us", "400"]
    processes = [
        group.popen([*words, "--steps", steps], env=environment, stdout=subprocess.PIPE)
        for group in groups
    ]
    summaries = [json.loads(process.communicate()[0]) for process in processes]
    return {each["pid"]: each["calls"]["cuLaunchKernel"] for each in summaries}


def _stored(store: Path, pids: list[int]) -> dict[int, int]:
    with Session(store) as session:
        rows = session.ask(
            "select pid, count(*) as n from cuda_events where op = 'launch' group by pid"
        ).table.to_pylist()
    found = {row["pid"]: row["n"] for row in rows}
    return {pid: found.get(pid, 0) for pid in pids}


def _losses(store: Path) -> dict[str, int]:
    with Session(store) as session:
        rows = session.ask(
            "select sum(seen)::bigint as seen, sum(stored)::bigint as stored, "
            "sum(shed)::bigint as shed, sum(lost)::bigint as lost from losses "
            "where family = 'cuda'"
        ).table.to_pylist()
    return dict(rows[0])
