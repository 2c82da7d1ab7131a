"""Tenants fill what all share: their neighbours miss nothing, and they are told what they lost."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cotenant.probes import tables as probed
from cotenant.probes.function import CallFamily, Library
from cotenant.schema.events import ENUMS
from cotenant.schema.holes import UNSENT
from tests.kernel.attackers import CALM, Client, delegated, entries, probed_script, shrink
from tests.kernel.compiler import build_client, build_library
from tests.kernel.conftest import Cgroup, Recording, command, record, truth
from tests.kernel.prototypes import PROTOTYPES
from tests.kernel.script import Script
from tests.kernel.tenants import finish, python
from tests.kernel.test_memory import told
from tests.kernel.test_overload import MIDDLE_RING, counted, fate, notes, rows_of, start, warm
from tests.kernel.test_overload import finish as ended

NESTED = 199
HAVE_ROWS = ("launch", "alloc", "free", "sync")

# Forges what a driver would give: the stubs of the library write nothing.
HOARD = """
os.setpgrp()
lib = ctypes.CDLL(LIBRARY)
say(ready=1)
wait()
made, forged = c_uint64(), c_uint64()
def forge(name, *args):
    return lib[name](*args)

for number in range(1, 17_001):
    made.value = number << 12
    forge("cuCtxSetCurrent", c_void_p(number))
    forge("cuMemAlloc_v2", byref(made), c_uint64(1009))
    forge("cuEventRecord", c_void_p(number << 4), None)
    forge("cuDevicePrimaryCtxRetain", byref(made), c_uint(number))
here, there = os.pipe()
for _ in range(18):
    if os.fork():
        continue
    for number in range(1, 257):
        forge("cuStreamBeginCapture_v2", c_void_p(number << 8), c_uint(0))
    for event in range(1, 4_002):
        forge("cuEventRecord", c_void_p(event << 20), c_void_p(1 << 8))
    os.write(there, b".")
    signal.pause()
assert all(os.read(here, 1) for _ in range(18))
say(done=1)
wait()
os.killpg(0, signal.SIGKILL)
"""
DEEP = """
lib = ctypes.CDLL(LIBRARY)
say(ready=1)
wait()
for _ in range(11):
    lib.cuLaunchKernel()
"""
NAMED = """
say(ready=1)
wait()
context, module = start()
for number in range(31):
    launch(out("cuModuleGetFunction", module, b"mine_%02d" % number), times=3)
"""
CHURN = """
os.setresgid(65534, 65534, 65534), os.setresuid(65534, 65534, 65534)
for number in range(2003):
    os.mkdir(f"{HOME}/docker-{number:064x}.scope")
    os.rmdir(f"{HOME}/docker-{number:064x}.scope")
say(done=1)
"""
SWARM = """
os.setpgrp()
lib = ctypes.CDLL(LIBRARY)
say(ready=1)
wait()
made = c_uint64()
for _ in range(101):
    if os.fork():
        continue
    for number in range(1, 4):
        made.value = number << 12
        lib.cuMemAlloc_v2(byref(made), c_uint64(1009))
    signal.pause()
time.sleep(1)
say(done=1)
wait()
os.killpg(0, signal.SIGKILL)
"""
SENDS = """
import socket, sys, time
here, there = socket.socketpair()
for _ in range(int(sys.argv[1])):
    here.send(b"7 bytes")
    time.sleep(0.002)
print("done")
"""
RING = ("--ring-bytes", "1048576")
FUNCTIONS = [
    each.symbol
    for each in probed.FUNCTIONS
    if each.library is Library.CUDA and each.family is CallFamily.CUDA and each.symbol in PROTOTYPES
]


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs of attackers, and a library of all functions that are probed."""
    directory = tmp_path_factory.mktemp("clients")
    build_client(directory / "roam", "roam")
    build_library(directory / "libcuda.so.1", FUNCTIONS)
    build_client(directory / "names", "names")
    build_client(
        directory / "libcuda.so.3", "deep", "-shared", "-fPIC", "-fno-omit-frame-pointer",
        "-fno-optimize-sibling-calls",
    )  # fmt: skip
    build_library(directory / "libcuda.so.2", ["cuLaunchKernel", "cuModuleGetFunction"])
    build_library(directory / "libcudart.so.12", ["__cudaRegisterFunction", "cudaLaunchKernel"])
    return directory


def roamer(
    recording: Recording, home: Cgroup, clients: Path, *words: object, cgroups: int = NESTED
) -> Client:
    """An ordinary user who goes from cgroup to cgroup within its own, and calls as it goes."""
    library = clients / "libcuda.so.1"
    return Client(recording, home, clients / "roam", library, home.path, cgroups, *words)


def within(cgroup: Cgroup) -> str:
    """A condition on containers: the cgroup and all below it."""
    return f"(cgroup_path = '/{cgroup.name}' or cgroup_path like '/{cgroup.name}/%')"


def sum_within(recording: Recording, cgroup: Cgroup, what: str, source: str) -> Any:
    """Of a tenant's GPU calls."""
    (row,) = recording.sql(
        f"select sum({what})::bigint as n from {source} join containers using (cgroup_id) "
        f"where {within(cgroup)} and family = 'cuda'"
    )
    return row["n"]


def paid(recording: Recording, cgroup: Cgroup) -> int:
    """How many totals go on a tenant's account."""
    per_cpu = (entry["values"] for entry in entries(recording, "totals"))
    return sum(max(one["value"]["payer"] for one in values) == cgroup.id for values in per_cpu)


def taken(recording: Recording, cgroup: Cgroup, quota: str) -> int:
    """How many entries a tenant has, by its account."""
    numbers = {name: number for number, name in ENUMS["quota"].items()}
    (mine,) = (each["value"] for each in entries(recording, "usage") if each["key"] == cgroup.id)
    return int(mine["used"][numbers[quota]])


def test_cgroups_within_a_tenant_share_its_part_of_the_ring(
    cgroups: Callable[[], Cgroup], store: Path, clients: Path
) -> None:
    storm, small, before = cgroups(), cgroups(), cgroups()
    with record(store, *RING, "--budget", "off") as recording, delegated(storm):
        warm(recording, before)
        loud = roamer(recording, storm, clients, 0, *["cuLaunchKernel"] * 50)
        loud.go_on()
        ended(start(small, "--steps", "4001", "--rate", "1000"))
        loud.go_on()
        calls = loud.heard()["calls"]
        assert 0 < paid(recording, storm) == taken(recording, storm, "totals")
        loud.end()
    assert rows_of(recording, small) == {"rows": 4001, "weight": 4001}
    what = fate(recording, small)
    assert (what["shed"], what["lost"], what["queued"]) == (0, 0, 0)
    assert sum_within(recording, storm, "shed", "losses") > 0
    assert sum_within(recording, storm, "seen", "losses") == calls
    assert sum_within(recording, storm, "count", "totals") == calls


def test_a_tenant_of_many_cgroups_leaves_others_their_totals(
    cgroups: Callable[[], Cgroup], store: Path, clients: Path
) -> None:
    hoard, small, before = cgroups(), cgroups(), cgroups()
    with record(store, "--budget", "off") as recording, delegated(hoard):
        warm(recording, before)
        roaming = roamer(recording, hoard, clients, 1, *FUNCTIONS, cgroups=260)
        roaming.go_on()
        calls = roaming.heard()["calls"]
        ended(start(small, "--steps", "8009"))
        roaming.end()
    assert counted(recording, small) == 8009
    what = fate(recording, small)
    assert (what["shed"], what["lost"], what["queued"]) == (0, 0, 0)
    assert rows_of(recording, small) == {"rows": 8009, "weight": 8009}
    assert sum_within(recording, hoard, "count", "totals") == calls
    assert notes(recording)["refused"]["totals"][f"/{hoard.name}"] > 0
    assert "imbalance" not in notes(recording)


def test_a_tenant_without_totals_has_its_rows_and_is_told_which_it_has_not(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    loud, calm, before = cgroups(), cgroups(), cgroups()
    options = (*MIDDLE_RING, "--budget", "off", "--events", "cuda,net", "--net-rows", "all")
    with record(store, *options) as recording:
        warm(recording, before)
        shrink(recording, totals=0, spare_totals=0)
        ended(start(loud, "--steps", "60013", log=tmp_path / "log"))
        assert finish(python(calm, SENDS, 211)) == "done\n"
    rows = [
        recording.sql(
            f"select 1 from {table} join containers using (cgroup_id) "
            f"where cgroup_path = '/{cgroup.name}'"
        )
        for table, cgroup in (("cuda_events", loud), ("net_events", calm))
    ]
    calls = [call for call in truth(tmp_path / "log") if call["op"] in HAVE_ROWS]
    refused = notes(recording)["refused"]
    assert refused["unsent"] == {f"/{loud.name}": len(calls) - len(rows[0])}
    assert 0 < len(rows[0]) < len(calls)
    assert len(rows[1]) == refused["uncounted"][f"/{calm.name}"] == 211
    assert UNSENT.name in missing(recording, loud, "cuda_events")
    assert missing(recording, calm, "net_events") == ""


def missing(recording: Recording, cgroup: Cgroup, table: str) -> str:
    """What an answer about a tenant says that it lacks."""
    words = (f"select count(*) from {table}", "--tenant", f"/{cgroup.name}")
    code, _, complaints = command("sql", "--store", recording.store, *words)
    assert code == 0, complaints
    return complaints


def test_a_tenant_that_makes_cgroups_without_end_has_a_bounded_number_of_rows(
    cgroups: Callable[[], Cgroup], store: Path
) -> None:
    churn, before = cgroups(), cgroups()
    with record(store) as recording, delegated(churn):
        warm(recording, before)
        script = Script(churn, CHURN.replace("{HOME}", str(churn.path)))
        assert script.heard() == {"done": 1}
        script.end()
        newborn = cgroups()
        ended(start(newborn, "--steps", "211"))
    assert rows_of(recording, newborn) == {"rows": 211, "weight": 211}
    rows = recording.sql(
        f"select distinct on (cgroup_path) tenant, container_id from containers "
        f"where cgroup_path like '/{churn.name}/%'"
    )
    # 256 at once, and one more every few seconds.
    assert 256 <= len(rows) <= 260
    # Whatever they are called, they are the user's.
    assert {(row["tenant"], row["container_id"]) for row in rows} == {("user/65534", "user/65534")}
    assert notes(recording)["refused"]["cgroups"] == {f"/{churn.name}": 2003 - len(rows)}


def test_what_a_tenant_forges_leaves_its_neighbour_memory_graphs_and_times(
    cgroups: Callable[[], Cgroup], store: Path, clients: Path
) -> None:
    hoard, calm, before = cgroups(), cgroups(), cgroups()
    with record(store, "--budget", "off") as recording:
        warm(recording, before)
        forger = probed_script(recording, hoard, HOARD, clients / "libcuda.so.1")
        forger.go_on()
        assert forger.heard() == {"done": 1}
        deep = probed_script(recording, hoard, DEEP, clients / "libcuda.so.3")
        deep.go_on()
        deep.end()
        script = Script(calm, CALM)
        assert script.heard() == {"done": 1}
        recording.wait_for(told(calm, "bytes = 5 * 4099 and allocations = 5"))
        script.go_on()
        assert script.heard() == {"freed": 1}
        recording.wait_for(told(calm, "bytes = 4 * 4099 and allocations = 4"))
        recording.wait_for(told(hoard, "bytes is null"))
        script.go_on()
        script.end()
        forger.go_on()
        forger.end(-signal.SIGKILL)
    rows = recording.sql(
        "select op, count(*)::bigint as n from cuda_events join containers using (cgroup_id) "
        f"where cgroup_path = '/{calm.name}' and op like '%launch' group by op order by op"
    )
    assert rows == [{"op": "graph_launch", "n": 3}, {"op": "launch", "n": 13}]
    (timed,) = recording.sql(
        "select count(gpu_ns)::bigint as n from cuda_events join containers using (cgroup_id) "
        f"where cgroup_path = '/{calm.name}' and op = 'launch'"
    )
    assert timed == {"n": 13}
    refused = notes(recording)["refused"]
    for quota in ("holdings", "captures", "members", "moments", "primaries"):
        assert refused[quota] == {f"/{hoard.name}": refused[quota][f"/{hoard.name}"]}
    assert refused["frames"] == {f"/{hoard.name}": 11}
    # What there was no room for is the hole of whom it was refused, and of nobody else.
    assert holes_without_room(recording, hoard, calm) == {
        ("calls nested too deep", f"/{hoard.name}"),
        ("no room for CUDA events", f"/{hoard.name}"),
        ("no room for allocations", f"/{hoard.name}"),
        ("no room for captures", f"/{hoard.name}"),
    }


def holes_without_room(recording: Recording, *tenants: Cgroup) -> set[tuple[str, str]]:
    """Why GPU calls are missing for want of room, and whose they are: of these, or of nobody."""
    whose = {f"/{cgroup.name}" for cgroup in tenants} | {None}
    rows = recording.sql(
        "select distinct reason, cgroup_path as path from losses join containers using (cgroup_id)"
        " where (reason like 'no room%' or reason like 'calls nested%') and family = 'cuda'"
    )
    return {(row["reason"], row["path"]) for row in rows if row["path"] in whose}


def named_meanwhile(cgroup: Cgroup, flood: Client, seconds: float) -> int:
    """Some name their kernels, so long after a flood of names began; how many came in all."""
    scripts = [Script(cgroup, NAMED) for _ in range(5)]
    for script in scripts:
        script.heard()
    flood.go_on()
    time.sleep(seconds)
    for script in scripts:
        script.go_on()
        script.end()
    flood.go_on()
    registered = flood.heard()["registered"]
    flood.end()
    return registered


def test_a_flood_of_names_leaves_its_neighbour_his_own(
    cgroups: Callable[[], Cgroup], store: Path, clients: Path
) -> None:
    """At first only the share of the ring bounds it, later how many names a tenant may have."""
    storm, brief, small, before = cgroups(), cgroups(), cgroups(), cgroups()
    with record(store, "--budget", "off") as recording:
        warm(recording, before)
        looked_up = Client(recording, brief, clients / "names", clients / "libcuda.so.2", 8)
        named_meanwhile(small, looked_up, 0.2)
        flood = Client(recording, storm, clients / "names", clients / "libcudart.so.12", 8)
        registered = named_meanwhile(small, flood, 3)
        newcomer = cgroups()
        ended(start(newcomer, "--steps", "7"))
    rows = recording.sql(
        "select kernel_name, count(*)::bigint as n from cuda_events "
        f"join containers using (cgroup_id) where cgroup_path = '/{small.name}' "
        "and op = 'launch' group by 1 order by 1"
    )
    assert rows == [{"kernel_name": f"mine_{n:02}", "n": 30} for n in range(31)]
    assert rows_of(recording, newcomer) == {"rows": 7, "weight": 7}
    refused = notes(recording)["refused"]["names"]
    assert set(refused) == {f"/{storm.name}", f"/{brief.name}"}
    assert 0 < refused[f"/{storm.name}"] < registered
    assert "fact_lost" not in notes(recording)


def test_a_swarm_of_processes_leaves_its_neighbour_his_memory(
    cgroups: Callable[[], Cgroup], store: Path, clients: Path
) -> None:
    swarm, calm, before = cgroups(), cgroups(), cgroups()
    with record(store, "--budget", "off") as recording:
        warm(recording, before)
        forger = probed_script(recording, swarm, SWARM, clients / "libcuda.so.1")
        shrink(recording, processes=64, allocations=64)
        forger.go_on()
        assert forger.heard() == {"done": 1}
        script = Script(calm, CALM)
        assert script.heard() == {"done": 1}
        recording.wait_for(told(calm, "bytes = 5 * 4099 and allocations = 5"))
        script.go_on()
        assert script.heard() == {"freed": 1}
        script.go_on()
        script.end()
        recording.wait_for(told(calm, "bytes = 0 and allocations = 0"))
        recording.wait_for(told(swarm, "bytes is null"))
        forger.go_on()
        forger.end(-signal.SIGKILL)
    refused = notes(recording)["refused"]
    assert set(refused["processes"]) == set(refused["allocations"]) == {f"/{swarm.name}"}
    assert holes_without_room(recording, swarm, calm) == {
        ("no room for allocations", f"/{swarm.name}")
    }
