"""Beside programs that patch the driver library in their own memory."""

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from cotenant.probes.ucx import EXPECTED, HOOKED
from tests.drivers import real_driver
from tests.kernel.conftest import PATIENCE, SIM, Cgroup, Recording, record, sim_environment, truth
from tests.kernel.patcher import ANSWER, patcher
from tests.kernel.script import Script

CHANGED = "a process has changed it in its memory"
DRIVER = {name: SIM / name / "libcuda.so.1" for name in ("plain", "framed", "checked")}
DRIVER["tabled"] = SIM / "libcuda.so.1"
PATCHED = ("cuMemAlloc_v2", "cuLaunchKernel")


def copy_of(driver: Path, place: Path) -> Path:
    """A driver library that nobody else has mapped."""
    place.mkdir()
    return Path(shutil.copy(driver, place / "libcuda.so.1"))


def refused(recording: Recording, library: Path) -> dict[str, str]:
    told: list[dict[str, Any]] = json.loads(
        recording.sql("select libraries from sessions")[0]["libraries"]
    )
    return next(each["refused"] for each in told if each["path"] == str(library))


def await_refusal(recording: Recording, library: Path, name: str) -> None:
    deadline = time.monotonic() + 20 * PATIENCE
    while name not in refused(recording, library):
        assert time.monotonic() < deadline, f"{name} is not refused"
        time.sleep(0.1)


def rows(recording: Recording, script: Script) -> dict[str, int]:
    asked = f"select api, count(*) as n from cuda_events where pid = {script.pid} group by api"
    return {row["api"]: row["n"] for row in recording.sql(asked)}


BEFORE = """
for name in PATCHED:
    patch(name, SIZE)
threads = run_threads(THREADS, PATCHED)
say(ready=1)
wait()
end(threads)
say(answers=answers(PATCHED, 7), free=[call_it("cuMemFree_v2") for _ in range(11)])
"""


def test_what_was_patched_before_is_left_alone_and_its_hook_works(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    scripts: dict[tuple[str, Path], Script] = {}
    for name, size, threads in [
        *(("framed", size, threads) for size in (5, 12, 13) for threads in (0, 3)),
        *(("tabled", size, 3) for size in (5, 12, 13)),
        ("checked", 12, 0),
    ]:
        library = copy_of(DRIVER[name], tmp_path / f"{name}-{size}-{threads}")
        text = f"PATCHED, SIZE, THREADS = {PATCHED}, {size}, {threads}" + BEFORE
        scripts[name, library] = patcher(cgroup, library, text)
    for script in scripts.values():
        script.heard()
    with record(store) as recording:
        for script in scripts.values():
            script.go_on()
            said = script.heard()
            script.end()
            hooked = [[ANSWER] * 7, 7]
            assert said["answers"] == dict.fromkeys(PATCHED, hooked)
            assert ANSWER not in said["free"]
    for (_, library), script in scripts.items():
        # Behind its slot the memory function is as it was.
        assert refused(recording, library) == {"cuLaunchKernel": CHANGED}
        assert rows(recording, script) == {"cuMemFree_v2": 11}


PATCHES = """
patch("cuLaunchKernel", 12)
say(ready=1)
wait()
"""

CALLS = """
say(ready=1)
wait()
say(codes=[call_it("cuLaunchKernel") for _ in range(7)])
"""


def test_what_somebody_had_patched_is_probed_again_for_others_when_he_is_gone(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    library = copy_of(DRIVER["tabled"], tmp_path / "shared")
    scripts = [patcher(cgroup, library, text) for text in (PATCHES, CALLS)]
    for script in scripts:
        script.heard()
    changer, neighbour = scripts
    with record(store) as recording:
        recording.wait_probed(library)
        assert refused(recording, library)["cuLaunchKernel"] == CHANGED
        changer.go_on()
        changer.end()
        deadline = time.monotonic() + 30 * PATIENCE
        while "cuLaunchKernel" in refused(recording, library):
            assert time.monotonic() < deadline, "it is not probed again"
            time.sleep(0.1)
        neighbour.go_on()
        assert ANSWER not in neighbour.heard()["codes"]
        neighbour.end()
    assert rows(recording, neighbour) == {"cuLaunchKernel": 7}


def ucx(name: str) -> Path:
    """A library of the wheel of UCX, which is installed for tests only."""
    spec = find_spec("libucx")
    assert spec is not None, "install libucx-cu12: pip install -e .[dev]"
    assert spec.origin is not None
    return Path(spec.origin).parent / "lib" / name


UCX = """
heard = [0]
@ctypes.CFUNCTYPE(None, c_int, c_void_p, c_void_p)
def freed(event, about, more):
    heard[0] += 1

def load_ucx():
    ctypes.CDLL(LIBUCS, ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(LIBUCM).ucm_set_event_handler(1 << 21, 0, freed, None)

def first_bytes():
    names = [name for name in HOOKED if hasattr(lib, name)]
    at = {name: ctypes.cast(getattr(lib, name), c_void_p).value for name in names}
    return {name: ctypes.string_at(address, 1).hex() for name, address in at.items()}

def free(times):
    before, codes = heard[0], [lib.cuMemFree_v2(c_void_p(4096)) for _ in range(times)]
    return [codes, heard[0] - before]
"""

LOADED = """
threads = run_threads(2, ["cuMemFree_v2"])
status = load_ucx()
end(threads)
say(status=status, first=first_bytes(), free=free(7))
say(calls=7 + through[0])
wait()
say(free=free(11))
"""


def ucx_client(cgroup: Cgroup, library: Path, text: str, **environment: str) -> Script:
    """A client that lets UCX hook functions of this library."""
    head = f"HOOKED, LIBUCS = {sorted(HOOKED)}, {str(ucx('libucs.so.0'))!r}\n"
    head += f"LIBUCM = {str(ucx('libucm.so.0'))!r}\n"
    place = {"LD_LIBRARY_PATH": str(library.parent)}
    return patcher(cgroup, library, head + UCX + text, **place, **environment)


FORMS = {"near": "n", "far": "y"}


@pytest.mark.parametrize(
    "driver",
    ["plain", "framed", "checked", "tabled", "460", "470", "555", "570", "580", "595", "615"],
)
def test_ucx_hooks_what_it_wants_whoever_comes_first(
    driver: str, cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    library = copy_of(DRIVER[driver] if driver in DRIVER else real_driver(driver), tmp_path / "x")

    def clients() -> Iterator[tuple[Script, dict[str, Any], int]]:
        for far in FORMS.values():
            # It waits 50 ms at each function; those before 1.21 did not wait.
            grace = {"UCX_MEM_BISTRO_GRACE_DURATION": "0" if far == "n" else "5ms"}
            forced = {"UCX_MEM_BISTRO_FORCE_FAR_JUMP": far}
            script = ucx_client(cgroup, library, LOADED, **forced, **grace)
            yield script, script.heard(), script.heard()["calls"]

    before = list(clients())
    with record(store) as recording:
        after = list(clients())
        for script, said, _ in (*before, *after):
            script.go_on()
            codes, heard = script.heard()["free"]
            assert len(set(codes)) == 1
            assert heard == (0 if said["status"] else 11)
            script.end()
    # What it could do without us it can do beside us; near it always could.
    assert [said for _, said, _ in after] == [said for _, said, _ in before]
    assert before[0][1]["status"] == 0
    assert before[0][1]["free"][1] == 7
    if driver in ("plain", "460"):
        left = refused(recording, library)
        assert set(left) <= HOOKED
        assert set(left.values()) == {EXPECTED}
        assert [rows(recording, script) for script, _, _ in (*before, *after)] == [{}] * 4
    else:
        assert refused(recording, library) == {}
        assert [rows(recording, script) for script, _, _ in before] == [{"cuMemFree_v2": 11}] * 2
        assert [rows(recording, script) for script, _, _ in after] == [
            {"cuMemFree_v2": calls + 11} for _, _, calls in after
        ]


LATER = """
say(ready=1)
wait()
for _ in range(3):
    call_it("cuLaunchKernel")
patch("cuLaunchKernel", SIZE, HOW)
if HOW == "with neighbours":
    change_neighbours("cuLaunchKernel")
answered, counted = answers(["cuLaunchKernel"], 7)["cuLaunchKernel"]
say(counted=counted, answered=answered.count(77))
wait()
"""
DIES = "dies"
WORKS = {"counted": 7, "answered": 7}
GOES_ON = {"counted": 7, "answered": 0}
PASSED_BY = {"counted": 0, "answered": 0}
# By driver, bytes of the patch, and what else is done: code on the pages beside it is changed at
# once, too; or the bytes are written in another way than most tools do.
OUTCOMES = {
    ("framed", 5, ""): WORKS,
    ("framed", 12, ""): WORKS,
    ("framed", 13, ""): WORKS,
    ("framed", 5, "with neighbours"): DIES,
    ("framed", 12, "with neighbours"): DIES,
    ("framed", 13, "with neighbours"): DIES,
    ("tabled", 13, ""): WORKS,
    ("tabled", 5, "with neighbours"): WORKS,
    ("tabled", 12, "with neighbours"): PASSED_BY,
    ("tabled", 13, "with neighbours"): PASSED_BY,
    ("framed", 5, "not run meanwhile"): WORKS,
    ("tabled", 5, "left writable"): WORKS,
    ("framed", 5, "from outside"): WORKS,
    ("framed", 5, "going on"): DIES,
    ("tabled", 5, "going on"): GOES_ON,
    ("checked", 5, ""): WORKS,
    ("checked", 12, ""): WORKS,
    ("checked", 13, ""): WORKS,
    ("checked", 5, "with neighbours"): WORKS,
    ("checked", 12, "with neighbours"): PASSED_BY,
    ("checked", 13, "with neighbours"): PASSED_BY,
    ("checked", 5, "going on"): GOES_ON,
}


SURVIVES = [case for case, outcome in OUTCOMES.items() if outcome in (WORKS, GOES_ON)]
# Nobody tells us that bytes were written past the protection of their page.
NOTICED = [case for case in SURVIVES if case[2] != "from outside"]


def test_what_becomes_of_a_patch_where_a_probe_is_already(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    """Not what we would like, but what docs/how/attach.md says."""
    scripts = {}
    found: dict[tuple[str, int, str], Any] = {}
    with record(store) as recording:
        for driver, size, how in OUTCOMES:
            library = copy_of(DRIVER[driver], tmp_path / f"{driver}-{size}-{how}")
            script = patcher(cgroup, library, f"SIZE, HOW = {size}, {how!r}" + LATER)
            script.heard()
            scripts[driver, size, how] = library, script
        recording.wait_probed(*(library for library, _ in scripts.values()))
        for case, (_, script) in scripts.items():
            script.go_on()
            assert script.process.stdout is not None
            said = script.process.stdout.readline()
            found[case] = json.loads(said) if said else DIES
        # The change is noticed. Whoever is slow enough finds the probe gone when it matters.
        assert all(outcome in (OUTCOMES[case], WORKS) for case, outcome in found.items()), found
        for case in NOTICED:
            await_refusal(recording, scripts[case][0], "cuLaunchKernel")
        for case, (_, script) in scripts.items():
            if case in SURVIVES:
                script.go_on()
                script.end()
            script.process.kill()
            script.process.communicate()
    for case in NOTICED:
        assert refused(recording, scripts[case][0])["cuLaunchKernel"] == CHANGED
    for case in SURVIVES:
        # Where the hook goes on behind its jump, so it does to the probe.
        seen = 10 if OUTCOMES[case] == GOES_ON else 3
        assert rows(recording, scripts[case][1]).get("cuLaunchKernel", 0) in {3, seen}


def test_another_tracers_probes_are_no_patch(cgroup: Cgroup, tmp_path: Path) -> None:
    library = copy_of(DRIVER["tabled"], tmp_path / "x")
    script = patcher(
        cgroup, library, 'say(ready=1)\nwait()\nfor _ in range(7): call_it("cuMemFree_v2")\n'
    )
    script.heard()
    with record(tmp_path / "first") as first, record(tmp_path / "second") as second:
        script.go_on()
        script.end()
    for recording in (first, second):
        assert refused(recording, library) == {}
        assert rows(recording, script) == {"cuMemFree_v2": 7}


MANY = """
say(ready=1)
for name in ("cuMemPrefetchAsync", "cuMemHostRegister_v2", "cuMemHostAlloc"):
    wait()
    patch(name, 5)
    say(patched=name)
wait()
"""


@pytest.mark.parametrize("method", ["multi", "session"])
def test_a_call_during_which_probes_are_replaced_is_one_row(
    method: str, cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    library = copy_of(DRIVER["framed"], tmp_path / "x")
    ready, go, log = tmp_path / "ready", tmp_path / "go", tmp_path / "truth.jsonl"
    neighbour = cgroups()
    environment = sim_environment(log, LD_LIBRARY_PATH=f"{library.parent}:{SIM}")
    launches = [SIM / "workload", "launch", "--api", "runtime12", "--rate", 4_001, "--threads", 3]
    with record(store, "--attach", method, "--events", "cuda", "--budget", "90%") as recording:
        script = patcher(cgroups(), library, MANY)
        script.heard()
        client = neighbour.popen(
            [*launches, "--steps", 30_011, "--ready", ready, "--start-on", go], env=environment
        )
        recording.wait_probed(library)
        go.touch()
        for _ in range(3):
            time.sleep(0.7)
            script.go_on()
            name = script.heard()["patched"]
            await_refusal(recording, library, name)
        client.communicate(timeout=60)
        script.go_on()
        script.end()
    done = Counter(line["tid"] for line in truth(log) if line["op"] == "launch")
    asked = "select tid, sum(weight)::bigint as n from cuda_events where op = 'launch' "
    stored = recording.sql(asked + f"and pid = {client.pid} group by tid")
    assert {row["tid"]: row["n"] for row in stored} == done
