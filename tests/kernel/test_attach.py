"""Where probes go, where they do not, and that they go away again."""

import ctypes
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cotenant.probes.elf import Elf
from cotenant.probes.function import Library
from cotenant.probes.plan import plan
from cotenant.probes.tables import FUNCTIONS
from tests.kernel.compiler import CLIENTS, compile_c
from tests.kernel.conftest import COTENANT, ROOT, SIM, Cgroup, Recording, record, sim_environment
from tests.kernel.script import Script, warm

POINTER = """
lib = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else PATH)
at = c_uint64()
assert lib.cuGetProcAddress_v2(b"cuLaunchKernel", byref(at), 12000, c_uint64(0), None) == 0
say(ready=1)
wait()
launch_it = ctypes.CFUNCTYPE(c_int, *[c_uint64] * 9)(at.value)
harmless = os.environ["HIDDEN_HOW"] in ("hidden", "nowhere")
for _ in range(7 if harmless else 0):
    assert launch_it(77, 3, 1, 1, 32, 1, 1, 0, 5) == 0
say(ready=2)
wait()
"""


def pointer_script(path: Path) -> str:
    return POINTER.replace("PATH", repr(str(path)))


def notes(recording: Recording) -> dict[str, Any]:
    return json.loads(recording.sql("select notes from sessions")[0]["notes"])


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_hidden(tmp_path_factory.mktemp("hidden"))


def build_hidden(directory: Path, *flags: str) -> Path:
    place = directory / "libcuda.so.1"
    compile_c(place, CLIENTS / "hidden.c", "-shared", "-fPIC", *flags)
    # Only the table of unwinding tells where its hidden function starts.
    subprocess.run(["strip", place], check=True)
    return place


def run_pointer(cgroup: Cgroup, recording: Recording, hidden: Path, how: str) -> Script:
    holder = Script(cgroup, f"ctypes.CDLL({str(hidden)!r})\nsay(ready=1)\nwait()\n")
    holder.heard()
    recording.wait_probed(hidden)
    script = Script(cgroup, pointer_script(hidden), HIDDEN_HOW=how)
    script.heard()
    recording.wait_told("select 1 from sessions where notes like '%\"pointers\"%'")
    script.go_on()
    script.heard()
    script.go_on()
    script.end()
    holder.go_on()
    holder.end()
    return script


@pytest.mark.parametrize("flags", [(), ("-DTABLED",)], ids=["framed", "tabled"])
def test_a_function_that_is_only_handed_out_is_traced(
    flags: tuple[str, ...], cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    hidden = build_hidden(tmp_path, *flags)
    with record(store) as recording:
        script = run_pointer(cgroup, recording, hidden, "hidden")
    rows = recording.sql(
        "select grid_x, block_x, stream from cuda_events "
        f"where pid = {script.pid} and op = 'launch'"
    )
    assert rows == [{"grid_x": 3, "block_x": 32, "stream": 5}] * 7
    assert notes(recording)["pointers"] == {"attached": 1, "refused": []}


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("inside", "points into the middle of a function"),
        ("elsewhere", "points into another file than the driver library"),
        ("nowhere", "points to no code of a file"),
    ],
)
def test_a_pointer_that_might_do_harm_is_refused_and_reported(
    how: str, reason: str, cgroup: Cgroup, store: Path, hidden: Path
) -> None:
    with record(store) as recording:
        script = run_pointer(cgroup, recording, hidden, how)
    assert notes(recording)["pointers"] == {
        "attached": 0,
        "refused": [{"pid": script.pid, "name": "cuLaunchKernel", "refused": reason}],
    }


def test_a_site_that_would_be_single_stepped_is_left_alone_and_reported(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    source = tmp_path / "lib.c"
    source.write_text(
        '#include "stub_function.h"\nSTUB(cuLaunchKernel)\n'
        '__asm__(".globl cuMemFree_v2\\n.type cuMemFree_v2,@function\\ncuMemFree_v2:\\n"\n'
        '"sub $8,%rsp\\nxor %eax,%eax\\nadd $8,%rsp\\nret\\n"\n'
        '".size cuMemFree_v2,.-cuMemFree_v2\\n");\n'
    )
    library = compile_c(tmp_path / "libcuda.so.1", source, "-shared", "-fPIC")
    with record(store, "--probes", "emulated") as recording:
        script = Script(
            cgroup,
            f"lib = ctypes.CDLL({str(library)!r})\nsay(ready=1)\nwait()\n"
            "assert lib.cuMemFree_v2(5) == 0\n",
        )
        script.heard()
        recording.wait_probed(library)
        script.go_on()
        script.end()
    libraries = json.loads(recording.sql("select libraries from sessions")[0]["libraries"])
    mine = next(lib for lib in libraries if lib["path"] == str(library))
    assert mine["attached"] == 1
    assert mine["refused"] == {"cuMemFree_v2": "would be single-stepped: starts with sub"}
    assert recording.sql(f"select * from cuda_events where pid = {script.pid}") == []


def test_the_runtime_is_spared_once_the_driver_is_seen_to_suffice(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    def launch(steps: int) -> dict[str, Any]:
        command = [SIM / "workload", "launch", "--api", "runtime12", "--steps", steps]
        process = cgroup.popen(command, env=sim_environment(driver="tabled"))
        said, _ = process.communicate(timeout=60)
        return json.loads(said)

    with record(store) as recording:
        warm(recording, cgroup, "libcudart.so.12", driver="tabled")
        before = launch(1511)
        recording.wait_told("select 1 from sessions where layers like 'auto: driver%'")
        recording.wait_told("select 1 from sessions where layers like 'auto: driver after 1511%'")
        # The helper takes the probes off in its own time.
        for _ in range(20):
            after = launch(211)
    apis = recording.sql(
        "select pid, api, count(*) as n, count(distinct kernel_name) as kernels from cuda_events "
        f"where op = 'launch' and pid in ({before['pid']}, {after['pid']}) group by all"
    )
    kernels = len(before["launches"])
    assert {(r["pid"], r["api"], r["n"], r["kernels"]) for r in apis} == {
        (before["pid"], "cudaLaunchKernel", 1511, kernels),
        (after["pid"], "cuLaunchKernel", 211, kernels),
    }
    # What the runtime's probes counted until then is no total: totals have the driver's calls.
    launches = recording.sql(
        "select function, sum(count)::int as n from totals join containers using (cgroup_id) "
        f"where tenant = '/{cgroup.name}' and function ilike 'cu%LaunchKernel' "
        "group by all having n > 0"
    )
    assert launches == [{"function": "cuLaunchKernel", "n": 1511 + 20 * 211}]


def test_a_call_that_outlives_its_probe_leaves_nothing_behind(
    cgroups: Callable[[], Cgroup], store: Path
) -> None:
    """Taken off while a thread waits in it, the runtime's probe never sees that call return."""
    waiter, other = cgroups(), cgroups()

    def workload(cgroup: Cgroup, *words: object, **environment: str) -> "subprocess.Popen[str]":
        command = [SIM / "workload", *words, "--api", "runtime12"]
        return cgroup.popen(command, env=sim_environment(**environment))

    def spared() -> bool:
        process = workload(other, "launch", "--steps", 53)
        process.communicate(timeout=60)
        found = recording.wait_for(
            f"select distinct api from cuda_events where op = 'launch' and pid = {process.pid}"
        )
        return found == [{"api": "cuLaunchKernel"}]

    with record(store) as recording:
        warm(recording, other, "libcudart.so.12")
        waits = workload(
            waiter, "train", "--kernels", 1, "--steps", 151,
            COTENANT_SIM_KERNEL_NS="*=30000000", COTENANT_SIM_COPY="0",
        )  # fmt: skip
        recording.wait_for(f"select 1 from cuda_events where op = 'sync' and pid = {waits.pid}")
        workload(other, "launch", "--steps", 1511).communicate(timeout=60)
        recording.wait_told("select 1 from sessions where layers like 'auto: driver%'")
        while not spared():
            assert waits.poll() is None, "it is over before the probe is off"
        spared_ns = time.time_ns()
        said, _ = waits.communicate(timeout=120)
    launches = recording.sql(
        f"select count(*) as n from cuda_events where op = 'launch' and pid = {waits.pid}"
    )
    assert launches == [{"n": sum(json.loads(said)["launches"].values())}]
    apis = recording.sql(
        "select distinct api from cuda_events where op in ('launch', 'sync') "
        f"and pid = {waits.pid} and timestamp_ns > {spared_ns} order by api"
    )
    assert [row["api"] for row in apis] == [
        "cuCtxSynchronize", "cuLaunchKernel", "cuStreamSynchronize",
    ]  # fmt: skip
    stuck = recording.sql(
        f"select * from in_flight where pid = {waits.pid} and began_ns < {spared_ns} "
        f"and timestamp_ns > {spared_ns} + 1000000000"
    )
    assert stuck == []


def wheel(package: str, pattern: str) -> Path:
    """A file of a wheel that is installed for tests only."""
    spec = find_spec("nvidia")
    assert spec is not None, f"install {package}: pip install -e .[dev]"
    found = [
        f for place in spec.submodule_search_locations or () for f in Path(place).glob(pattern)
    ]
    assert found, f"install {package}: pip install -e .[dev]"
    return found[0].resolve()


WHEELS = {
    "cudart12": ("nvidia-cuda-runtime-cu12", "cuda_runtime/lib/libcudart.so.12", Library.CUDART),
    "cudart13": ("nvidia-cuda-runtime", "cu13/lib/libcudart.so.13", Library.CUDART),
    "nccl": ("nvidia-nccl-cu12", "nccl/lib/libnccl.so.2", Library.NCCL),
}
# What one release has and another not; everything else must be in each.
_SINCE_13 = (
    "cudaLaunchHostFunc_v2", "cudaMemDiscardAndPrefetchBatchAsync", "cudaMemDiscardBatchAsync",
    "cudaMemPrefetchBatchAsync", "cudaMemcpy3DWithAttributesAsync",
    "cudaMemcpyWithAttributesAsync", "cudaStreamBeginRecaptureToGraph",
)  # fmt: skip
NOT_IN = {
    "cudart12": {
        "cudaExecutionCtxDestroy", "cudaExecutionCtxRecordEvent", "cudaExecutionCtxStreamCreate",
        "cudaExecutionCtxSynchronize", "cudaExecutionCtxWaitEvent", "cudaGreenCtxCreate",
        *_SINCE_13, *(f"{name}_ptsz" for name in _SINCE_13),
    },
    "cudart13": {
        "cudaThreadSynchronize", "cudaEventElapsedTime_v2", "cudaMemPrefetchAsync_v2",
        "cudaMemPrefetchAsync_v2_ptsz", "cudaGraphAddNode_v2", "cudaThreadExit",
        "cudaLaunchCooperativeKernelMultiDevice",
    },
    "nccl": set(),
}  # fmt: skip
# Its first instruction moves the stack: what it does is seen in ncclBroadcast, inside it.
REFUSED = {"cudart12": set(), "cudart13": set(), "nccl": {"ncclBcast", "pncclBcast"}}


@pytest.mark.parametrize("name", sorted(WHEELS))
def test_every_promised_symbol_of_a_real_library_is_attached_or_refused_for_a_reason(
    name: str,
) -> None:
    package, pattern, kind = WHEELS[name]
    with wheel(package, pattern).open("rb") as file:
        found = plan(file.fileno(), FUNCTIONS)
        with Elf(file.fileno()) as elf:
            exported = elf.find(f.symbol for f in FUNCTIONS if f.library is kind)
    assert found is not None
    promised = {f.symbol for f in FUNCTIONS if f.library is kind}
    assert promised - exported.keys() == NOT_IN[name]
    assert set(found.refused) == REFUSED[name]
    assert {why.partition(":")[0] for why in found.refused.values()} <= {"would be single-stepped"}
    # Two names of one address are probed once, under the first.
    attached = {placed.function.symbol for placed in found.placed}
    places = {exported[symbol] for symbol in attached & exported.keys()}
    unprobed = {symbol for symbol, place in exported.items() if place not in places}
    assert unprobed == REFUSED[name]


def run_probed(
    recording: Recording, cgroup: Cgroup, text: str, path: Path | str
) -> tuple[Script, dict[str, Any]]:
    """A script that waits until a library of its own is probed, and what it said at its end."""
    script = Script(cgroup, text)
    script.heard()
    recording.wait_probed(path)
    script.go_on()
    said = script.heard()
    script.end()
    return script, said


def test_what_a_refused_function_does_is_seen_inside_it(cgroup: Cgroup, store: Path) -> None:
    path = wheel(*WHEELS["nccl"][:2])
    text = f"""
nccl = ctypes.CDLL({str(path)!r})
say(ready=1)
wait()
results = [nccl.ncclBcast(None, c_uint64(11), 7, 0, None, None) for _ in range(7)]
context, module = start()
launch(out("cuModuleGetFunction", module, b"kernel"), times=11)
say(results=results)
"""
    with record(store, "--probes", "emulated") as recording:
        script, said = run_probed(recording, cgroup, text, path)
    rows = recording.sql(f"select op, api, result from nccl_events where pid = {script.pid}")
    assert all(result != 0 for result in said["results"])
    assert rows == [
        {"op": "Broadcast", "api": "ncclBroadcast", "result": r} for r in said["results"]
    ]
    (libraries,) = recording.sql("select libraries from sessions")
    mine = next(lib for lib in json.loads(libraries["libraries"]) if lib["path"] == str(path))
    assert set(mine["refused"]) == REFUSED["nccl"]
    done = subprocess.run(
        [*COTENANT, "doctor", "--json", "--store", store],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    checks = [check for check in json.loads(done.stdout) if "recorded" in check["name"]]
    told = {check["found"] for check in checks}
    (about,) = [check["more"] for check in checks if check["found"].startswith(f"{path}: ")]
    assert about == ["refused: ncclBcast, pncclBcast: would be single-stepped: starts with sub"]
    assert (
        "launches: 0 seen in the runtime, 0 of them also in the driver, 11 in the driver only"
        in told
    )


def test_a_library_in_an_environment_that_its_process_names_is_probed_before_it_is_mapped(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    if _has_driver():
        pytest.skip("this machine has a driver; the calls would succeed")
    place = tmp_path / "of" / "somebody" / "lib/python3.12/site-packages/nvidia/cu13/lib"
    place.mkdir(parents=True)
    library = shutil.copy(wheel(*WHEELS["cudart13"][:2]), place)
    text = f"""
say(ready=1)
wait()
runtime = ctypes.CDLL({str(library)!r})
say(results=[runtime.cudaMalloc(byref(c_uint64()), c_uint64(1009)) for _ in range(17)])
"""
    with record(store) as recording:
        script = Script(cgroups(), text, VIRTUAL_ENV=str(tmp_path / "of" / "somebody"))
        script.heard()
        recording.wait_probed(library)
        script.go_on()
        said = script.heard()
        script.end()
    rows = recording.sql(f"select result from cuda_events where pid = {script.pid}")
    assert [row["result"] for row in rows] == said["results"]
    assert len(rows) == 17
    (session,) = recording.sql("select libraries from sessions")
    (mine,) = [lib for lib in json.loads(session["libraries"]) if lib["path"] == str(library)]
    assert mine["gap_ns"] is None


def test_each_recording_has_every_call_of_a_real_runtime_also_on_a_busy_machine() -> None:
    """A short form of bench/rounds.py: one client was there before, one comes after."""
    if _has_driver():
        pytest.skip("this machine has a driver; the calls would succeed")
    done = subprocess.run(
        [sys.executable, ROOT / "bench" / "rounds.py", "--rounds", "2"],
        capture_output=True, text=True, check=True, timeout=240,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["incomplete"] == []
    assert (found["rounds"], found["complete"]) == (2, 2)


@pytest.mark.parametrize("name", ["cudart12", "cudart13"])
def test_calls_that_fail_for_want_of_a_driver_are_recorded_with_their_result(
    name: str, cgroup: Cgroup, store: Path
) -> None:
    if _has_driver():
        pytest.skip("this machine has a driver; the calls would succeed")
    path = wheel(*WHEELS[name][:2])
    text = f"""
runtime = ctypes.CDLL({str(path)!r})
say(ready=1)
wait()
results = [runtime.cudaMalloc(byref(c_uint64()), c_uint64(1009)) for _ in range(7)]
say(results=results)
"""
    with record(store) as recording:
        script, said = run_probed(recording, cgroup, text, path)
    rows = recording.sql(
        f"select op, bytes, result from cuda_events where pid = {script.pid} and api = 'cudaMalloc'"
    )
    assert all(result != 0 for result in said["results"])
    assert rows == [{"op": "alloc", "bytes": 1009, "result": r} for r in said["results"]]


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True
