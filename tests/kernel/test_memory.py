"""GPU memory per tenant over time, against what the client allocated."""

import json
from collections.abc import Callable
from itertools import accumulate, groupby
from pathlib import Path

from tests.kernel.conftest import Cgroup, Recording, command, record, truth
from tests.kernel.script import PRELUDE, Script, warm

STEPS = """
context, module = start()
held = {}
def alloc(bytes): p = out("cuMemAlloc_v2", c_uint64(bytes)); held[p] = bytes; return p
def step(): say(bytes=sum(held.values()), live=len(held)); wait()

a, b, c = alloc(1000003), alloc(2000003), alloc(3000017)
step()
call("cuMemFree_v2", b); del held[b]
assert call("cuMemFree_v2", 0x1234567000, result=None) != 0
step()
# Physical memory: held by its handle and by its mapping, gone with the last of them.
prop = struct.pack("<4I4Q", 1, 0, 1, 0, 0, 0, 0, 0)
size = 2 << 20
h = out("cuMemCreate", c_uint64(size), prop, c_uint64(0)); held[h] = size
va = out("cuMemAddressReserve", c_uint64(size), c_uint64(0), c_uint64(0), c_uint64(0))
call("cuMemMap", va, c_uint64(size), c_uint64(0), h, c_uint64(0))
call("cuMemRelease", h)
step()
call("cuMemUnmap", va, c_uint64(size)); del held[h]
step()
# Several pieces in a row, taken away by one call.
va = out("cuMemAddressReserve", c_uint64(6 * size), c_uint64(0), c_uint64(0), c_uint64(0))
at = va
for part in (size, 3 * size, 2 * size):
    h = out("cuMemCreate", c_uint64(part), prop, c_uint64(0)); held[h] = part
    call("cuMemMap", at, c_uint64(part), c_uint64(0), h, c_uint64(0))
    call("cuMemRelease", h)
    at += part
step()
call("cuMemUnmap", va, c_uint64(6 * size))
held = {p: bytes for p, bytes in held.items() if p in (a, c)}
step()
stream = out("cuStreamCreate", 1)
d = out("cuMemAllocAsync", c_uint64(5000011), stream); held[d] = 5000011
host = out("cuMemAllocHost_v2", c_uint64(7777777))
step()
call("cuMemFreeAsync", d, stream); del held[d]
call("cuMemFreeHost", host)
step()
held.clear()
"""

FINAL = """
call("cuDevicePrimaryCtxReset_v2", 0)
step()
"""


def held(recording: Recording, cgroup: Cgroup) -> list[dict]:
    return recording.sql(
        "select bytes, allocations from gpu_memory m join containers c using (cgroup_id) "
        f"where c.cgroup_path = '/{cgroup.name}' order by m.timestamp_ns"
    )


def told(cgroup: Cgroup, condition: str) -> str:
    return (
        "select 1 from gpu_memory join containers c using (cgroup_id) "
        f"where c.cgroup_path = '/{cgroup.name}' and {condition}"
    )


def test_bytes_held_follow_every_allocation_and_end_with_the_process(
    cgroup: Cgroup, store: Path
) -> None:
    with record(store) as recording:
        warm(recording, cgroup)
        script = Script(cgroup, STEPS)
        said = []
        for _ in range(8):
            said.append(script.heard())
            recording.wait_for(
                "select 1 from gpu_memory m join containers c using (cgroup_id) where "
                f"c.cgroup_path = '/{cgroup.name}' and allocations = {said[-1]['live']} "
                f"and bytes = {said[-1]['bytes']}"
            )
            script.go_on()
        script.end()
    rows = held(recording, cgroup)
    assert [r["bytes"] for r in rows][-1] == 0
    truth = {(s["bytes"], s["live"]) for s in said} | {(0, 0)}
    assert {(r["bytes"], r["allocations"]) for r in rows} >= truth
    frees = recording.sql(
        f"select bytes from cuda_events where pid = {script.pid} and op = 'free' "
        "order by timestamp_ns"
    )
    released = [parts * (2 << 20) for parts in (1, 1, 3, 2)]
    assert [r["bytes"] for r in frees] == [2000003, None, *released, 5000011, 7777777]


def test_memory_of_a_reset_context_is_free(cgroup: Cgroup, store: Path) -> None:
    with record(store) as recording:
        warm(recording, cgroup)
        script = Script(
            cgroup,
            "context, module = start()\nout('cuMemAlloc_v2', c_uint64(1000003))\n"
            "say(ready=1)\nwait()\ncall('cuDevicePrimaryCtxReset_v2', 0)\nsay(ready=2)\nwait()\n",
        )
        script.heard()
        mine = (
            f"gpu_memory join containers c using (cgroup_id) where c.cgroup_path = '/{cgroup.name}'"
        )
        recording.wait_for(f"select 1 from {mine} and bytes = 1000003")
        script.go_on()
        script.heard()
        recording.wait_for(
            f"select 1 from (select * from {mine} order by timestamp_ns desc limit 1) "
            "where bytes = 0"
        )
        script.go_on()
        script.end()
    assert [r["bytes"] for r in held(recording, cgroup)] == [1000003, 0]


def test_another_program_in_the_same_process_holds_only_its_own(
    cgroup: Cgroup, store: Path
) -> None:
    start_and_hold = "start()\nout('cuMemAlloc_v2', c_uint64({bytes}))\nsay(ready=1)\nwait()\n"
    then = PRELUDE + start_and_hold.format(bytes=2000003)
    with record(store) as recording:
        warm(recording, cgroup)
        script = Script(
            cgroup,
            start_and_hold.format(bytes=1000003)
            + f"os.execv(sys.executable, [sys.executable, '-c', {then!r}])\n",
        )
        for held_now in (1000003, 2000003):
            script.heard()
            recording.wait_for(told(cgroup, f"bytes = {held_now} and allocations = 1"))
            script.go_on()
        script.end()
    rows = [row["bytes"] for row in held(recording, cgroup)]
    assert [bytes for bytes in rows if bytes] == [1000003, 2000003]
    assert rows[-1] == 0


def test_a_process_that_ran_before_has_no_known_total(cgroup: Cgroup, store: Path) -> None:
    script = Script(
        cgroup,
        "context, module = start()\nout('cuMemAlloc_v2', c_uint64(1000003))\nsay(ready=1)\nwait()\n"
        "out('cuMemAlloc_v2', c_uint64(2000003))\nsay(ready=2)\nwait()\n",
    )
    script.heard()
    with record(store) as recording:
        script.go_on()
        script.heard()
        rows = recording.wait_for(
            "select bytes, allocations from gpu_memory join containers c using (cgroup_id) "
            f"where c.cgroup_path = '/{cgroup.name}'"
        )
        assert rows == [{"bytes": None, "allocations": 1}]
        script.go_on()
        script.end()


MANY = """
start()
allocate, made = cuda.cuMemAlloc_v2, byref(c_uint64())
assert not any(allocate(made, c_uint64(512)) for _ in range(65537))
say(ready=1)
wait()
call("cuDevicePrimaryCtxReset_v2", 0)
out("cuMemAlloc_v2", c_uint64(1009))
say(ready=2)
wait()
"""


def test_more_allocations_than_there_is_room_for_are_not_summed_up_as_all(
    cgroups: Callable[[], Cgroup], store: Path
) -> None:
    hoard, other = cgroups(), cgroups()
    with record(store) as recording:
        warm(recording, other)
        script = Script(hoard, MANY)
        script.heard()
        recording.wait_for(told(hoard, "bytes is null and allocations = 65536"))
        script.go_on()
        script.heard()
        recording.wait_for(told(hoard, "bytes = 1009 and allocations = 1"))
        script.go_on()
        script.end()
    assert held(recording, hoard)[-1] == {"bytes": 0, "allocations": 0}


def test_where_memory_functions_have_no_probe_the_total_is_not_known(
    cgroups: Callable[[], Cgroup], store: Path
) -> None:
    """Of a driver without slots, what UCX hooks is left alone; physical memory is seen."""
    text = """
start()
prop = struct.pack("<4I4Q", 1, 0, 1, 0, 0, 0, 0, 0)
out("cuMemCreate", c_uint64(2 << 20), prop, c_uint64(0))
say(ready=1)
wait()
"""
    plain, tabled = cgroups(), cgroups()
    with record(store) as recording:
        # In this order: whoever has both in its search path may have the second one found early.
        warm(recording, tabled, driver="tabled")
        warm(recording, plain, driver="plain")
        scripts = [Script(plain, text, "plain"), Script(tabled, text, "tabled")]
        for script in scripts:
            script.heard()
        recording.wait_for(told(plain, "allocations = 1"))
        recording.wait_for(told(tabled, "allocations = 1"))
        for script in scripts:
            script.go_on()
            script.end()
    assert held(recording, plain)[0] == {"bytes": None, "allocations": 1}
    assert held(recording, tabled)[0] == {"bytes": 2 << 20, "allocations": 1}


BURSTS = """
context, module = start()
kept = [out("cuMemAlloc_v2", c_uint64(1000003 + n)) for n in range(5)]
say(ready=1)
for n in range(7):
    p = out("cuMemAlloc_v2", c_uint64((3 << 30) + n))
    time.sleep(0.05 + 0.011 * n)
    call("cuMemFree_v2", p)
    host = out("cuMemAllocHost_v2", c_uint64(7777777))
    call("cuMemAlloc_v2", byref(c_uint64()), c_uint64(1 << 50), result=None)
    time.sleep(0.23)
say(ready=2)
wait()
"""


def test_each_burst_between_two_samples_is_in_the_levels_and_the_peak(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    with record(store) as recording:
        warm(recording, cgroup)
        logs = [tmp_path / f"{n}.jsonl" for n in range(2)]
        scripts = [Script(cgroup, BURSTS, COTENANT_SIM_LOG=str(log)) for log in logs]
        for script in scripts:
            script.heard()
        for script in scripts:
            script.heard()
        # Until a sample after the last free; what a process holds is free when it ends.
        pids = tuple(script.pid for script in scripts)
        (last,) = recording.wait_for(
            f"select max(timestamp_ns) as ns from cuda_events where pid in {pids} "
            "and api = 'cuMemFree_v2' having count(*) = 14"
        )
        recording.wait_for(f"select 1 from totals where timestamp_ns > {last['ns']} + 1000000000")
        for script in scripts:
            script.end()
    calls = [call for log in logs for call in truth(log) if call.get("result") == 0]
    sizes, changes = {}, []
    for call in sorted(calls, key=lambda call: call["t_end"]):
        key = call["pid"], call.get("pointer")
        if call["api"] == "cuMemAlloc_v2":
            sizes[key] = call["bytes"]
            changes.append(call["bytes"])
        elif call["api"] == "cuMemFree_v2":
            changes.append(-sizes.pop(key))
    assert len(changes) == 2 * (5 + 7 + 7)
    sums = list(accumulate(changes))
    (peak,) = recording.sql(
        f"select max(bytes) as bytes from gpu_memory join containers c using (cgroup_id) "
        f"where c.cgroup_path = '/{cgroup.name}'"
    )
    assert peak["bytes"] == max(sums)
    seen = [row["bytes"] for row in held(recording, cgroup)]
    # Each level that there truly was, in their order; the processes end with what they hold.
    assert [size for size, _ in groupby(seen) if size][: len(sums)] == sums
    code, said, _ = command("ask", "--store", store, "memory_held", "step=1h", "--json")
    assert code == 0
    assert [r["most_bytes"] for r in json.loads(said)["rows"] if cgroup.name in r["tenant"]] == [
        max(sums)
    ]
