"""Device times from files of profilers, made from what the stand-in's device did."""

import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kernel.conftest import (
    Cgroup,
    Recording,
    ask,
    command,
    record,
)
from tests.kernel.script import Script, warm
from tests.profile_files import nsys_export, ran, torch_trace


@pytest.fixture
def store() -> Iterator[Path]:
    """A store that the recorder's user can reach by its path, as in /var/lib."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
        Path(place).chmod(0o755)
        yield Path(place) / "store"


KERNELS = "gemm=900000,decode=350000,*=120000"

# Two threads and streams; kernels, copies, a graph; waits now and then.
PLAYER = """
import random
from ctypes import c_size_t
context, module = start()
call("cuDeviceGetUuid_v2", ctypes.create_string_buffer(16), 0)
kernels = [out("cuModuleGetFunction", module, name) for name in (b"gemm", b"decode", b"touch")]
memory = out("cuMemAlloc_v2", c_size_t(1 << 20))
host = ctypes.create_string_buffer(1 << 20)
captured = out("cuStreamCreate", 1)
graph = c_uint64()
call("cuStreamBeginCapture_v2", captured, 0)
launch(kernels[2], captured, times=3)
call("cuStreamEndCapture", captured, byref(graph))
exec_ = out("cuGraphInstantiateWithFlags", graph.value, c_uint64(0))

def live(seed):
    dice = random.Random(seed)
    call("cuCtxSetCurrent", context)
    stream = out("cuStreamCreate", 1)
    for step in range({steps}):
        for _ in range(dice.randrange(1, 4)):
            launch(dice.choice(kernels), stream, grid=(dice.choice((2, 8)), 1, 1))
        if dice.random() < 0.3:
            call("cuMemcpyHtoDAsync_v2", memory, host, c_size_t(dice.choice((256, 4096))), stream)
        if dice.random() < 0.2:
            call("cuMemsetD8Async", memory, 0, c_size_t(512), stream)
        if seed == {seed} and dice.random() < 0.2:
            call("cuGraphLaunch", exec_, stream)
        call("cuStreamSynchronize", stream)
        time.sleep(dice.expovariate(2000))

threads = [threading.Thread(target=live, args=(s,)) for s in ({seed}, {seed} + 1)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def played(
    recording: Recording,
    cgroups: Callable[[], Cgroup],
    tmp_path: Path,
    *seeds: int,
    together: bool = False,
) -> list[tuple[Script, Path]]:
    """Processes that run the same program, each with choices of its own: alone, or together."""
    warm(recording, cgroups())
    found = []
    for seed in seeds:
        log = tmp_path / f"{seed}.jsonl"
        text = PLAYER.replace("{steps}", "150").replace("{seed}", str(seed))
        more = {"COTENANT_SIM_KERNEL_NS": KERNELS, "COTENANT_SIM_INIT_MS": "0"}
        found.append((Script(cgroups(), text, COTENANT_SIM_LOG=str(log), **more), log))
        if not together:
            found[-1][0].end()
    if together:
        for script, _ in found:
            script.end()
    return found


def utc_ns() -> int:
    """UTC minus the clock of the stand-in's log."""
    return time.time_ns() - time.monotonic_ns()


def check_stored(store: Path, pid: int, log: Path) -> int:
    """Each time that was imported is that of the operation in the log; how many there are."""
    (session,) = ask(store, "select wall_offset_ns from sessions")
    rows = ask(
        store,
        "select timestamp_ns, tid, op, gpu_ns from cuda_events "
        f"where pid = {pid} and gpu_ns_source = 'imported' order by timestamp_ns",
    )
    true: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    for one in ran(log):
        took = sum(d["device_end"] - d["device_start"] for d in one.device)
        true[one.line["tid"], one.line["op"]].append((one.began, took))
    begun = {key: [began for began, _ in times] for key, times in true.items()}
    times = [row["timestamp_ns"] - session["wall_offset_ns"] for row in rows]
    keys = [(row["tid"], row["op"]) for row in rows]
    # UTC has moved on by microseconds since the session noted its offset.
    apart = [min((at - b for b in begun[k]), key=abs) for k, at in zip(keys, times, strict=True)]
    moved = sorted(apart)[len(apart) // 2]
    wrong = []
    for row, key, at in zip(rows, keys, times, strict=True):
        began, took = min(true[key], key=lambda pair: abs(pair[0] + moved - at))
        if abs(took - row["gpu_ns"]) > 4:  # Microseconds with decimals, per node of a graph.
            wrong.append((row, took, at - began))
    assert len(wrong) <= 0.01 * len(rows), wrong
    return len(rows)


def test_torch_trace_times_operations(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    with record(store) as recording:
        (script, log), (other, _) = played(recording, cgroups, tmp_path, 1, 3)
    file = torch_trace(tmp_path / "trace.json.gz", log, utc_ns(), off_ns=-3_700_000)
    operations = len(ran(log))

    code, said, complaints = command("import", file, "--compare", "--store", store)
    print(said, complaints)
    assert code == 0, complaints
    assert not ask(store, "select 1 from gpu_timings")

    code, said, complaints = command("import", file, "--store", store)
    assert code == 0, complaints
    assert f"process {script.pid} of" in said
    stored = check_stored(store, script.pid, log)
    assert stored >= 0.99 * operations
    assert f"matched {stored} of {operations} operations" in said.replace(",", "")
    assert not ask(store, f"select 1 from gpu_timings where pid = {other.pid}")
    known = ask(
        store,
        "select distinct gpu_ns_source as source from gpu_times "
        f"where pid = {script.pid} and gpu_ns is not null",
    )
    assert {"source": "imported"} in known

    code, said, _ = command("import", file, "--store", store)
    assert code == 0
    assert f"stored 0 device times in {store}; {stored:,} were there" in said
    assert check_stored(store, script.pid, log) == stored


def test_nsys_export_of_two_processes_times_operations(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    with record(store) as recording:
        both = played(recording, cgroups, tmp_path, 1, 3, together=True)
    logs = [log for _, log in both]
    file = nsys_export(tmp_path / "run.sqlite", logs, utc_ns(), off_ns=41_000_000_000)
    code, said, complaints = command("import", file, "--store", store)
    print(said, complaints)
    assert code == 0, complaints
    for script, log in both:
        assert f"process {script.pid} of" in said
        assert check_stored(store, script.pid, log) >= 0.99 * len(ran(log))


def test_program_that_was_not_recorded_is_refused(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    with record(store) as recording:
        played(recording, cgroups, tmp_path, 1)
    script = Script(
        cgroups(),
        PLAYER.replace("{steps}", "150").replace("{seed}", "9"),
        COTENANT_SIM_LOG=str(tmp_path / "9.jsonl"),
        COTENANT_SIM_KERNEL_NS=KERNELS,
        COTENANT_SIM_INIT_MS="0",
    )
    script.end()
    file = torch_trace(tmp_path / "trace.json", tmp_path / "9.jsonl", utc_ns())
    code, said, complaints = command("import", file, "--store", store)
    assert (code, said) == (2, "")
    assert len(complaints.splitlines()) == 1
    assert "a program that was not recorded" in complaints
    assert not ask(store, "select 1 from gpu_timings")
