"""NCCL calls on the running kernel, compared with what the stand-in library says happened."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cotenant.schema.events import ENUMS
from cotenant.schema.holes import FACTS_LOST
from tests.kernel.compiler import build_client, build_library, compile_c
from tests.kernel.conftest import SIM, Cgroup, Recording, record, sim_environment, truth
from tests.kernel.script import Script

TIMES = 11
CLIENTS = Path(__file__).parent / "clients"
PER_RANK = ("AllGather", "ReduceScatter", "AlltoAll")
NO_ROW = ("GroupStart", "GroupSimulateEnd", "CommUserRank", "CommCount")


# A recorder that learns nothing, and so has to say of whom it learned nothing.
DEAF = """
import sys
from cotenant.agent.recorder.ingest import fact_budget
from cotenant.views.cli import main
fact_budget._AT_ONCE = 0
sys.exit(main(sys.argv[1:]))
"""
# Facts of every kind; the unique id that a communicator grows by is the tenant's own to choose.
TELL = """
lib = ctypes.CDLL(LIBRARY)
say(ready=1)
wait()
made, answer, unique = (c_uint64 * 64)(*range(1, 65)), c_int(5), ctypes.create_string_buffer(128)
for number in range(23):
    unique.raw = bytes([number]) * 128
    lib.ncclCommInitAll(made, 3, None)
    lib.ncclCommGrow(made, 2, unique, 1, made, None)
    lib.ncclCommUserRank(made, byref(answer))
"""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client, built against the stand-in libraries."""
    program = tmp_path_factory.mktemp("nccl") / "ranks"
    subprocess.run(
        ["gcc", "-O1", "-o", program, CLIENTS / "ranks.c", f"-L{SIM}",
         "-l:libnccl.so.2", "-l:libcudart.so.13", "-lpthread", f"-Wl,-rpath-link,{SIM}"],
        check=True,
    )  # fmt: skip
    return program


def recorded(
    recording: Recording, pid: int
) -> tuple[list[dict[str, Any]], Counter[tuple[Any, ...]]]:
    rows = recording.sql(f"select * from nccl_events where pid = {pid} order by timestamp_ns")
    return rows, Counter(
        (r["op"], r["api"], r["bytes"], r["datatype"], r["reduce_op"], r["root"], r["peer"],
         r["rank"], r["nranks"], r["result"], r["group_id"] is not None)
        for r in rows
    )  # fmt: skip


def expected(calls: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """The log's calls as rows should show them; a start of a group is no row, an inner end none."""
    found: Counter[tuple[Any, ...]] = Counter()
    for call in calls:
        if call["op"] != "nccl" or call["nccl"] in NO_ROW:
            continue
        op = call["nccl"]
        size = call.get("bytes")
        if size is not None and op in PER_RANK:
            size *= call["nranks"]
        found[
            op,
            call["api"],
            size,
            ENUMS["nccl_datatype"].get(call.get("datatype", -1)),
            ENUMS["nccl_reduce_op"].get(call.get("reduce_op", -1)),
            call.get("root"),
            call.get("peer"),
            call.get("rank"),
            call.get("nranks"),
            call["result"],
            call.get("group") is not None,
        ] += 1
    return found


@pytest.mark.parametrize("attach", ["session", "multi"])
def test_every_call_carries_what_was_passed(
    attach: str, ranks: Path, cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    with record(store, "--attach", attach) as recording:
        warm = cgroup.popen([ranks, 0], env=sim_environment())
        warm.communicate(timeout=60)
        recording.wait_probed("libnccl.so.2")
        client = cgroup.popen([ranks, TIMES], env=sim_environment(tmp_path / "log"))
        client.communicate(timeout=60)
        assert client.returncode == 0
    calls = truth(tmp_path / "log")
    rows, found = recorded(recording, client.pid)
    collectives = {key: n for key, n in expected(calls).items() if not key[0].startswith("Comm")}
    assert {key: n for key, n in found.items() if not key[0].startswith("Comm")} == collectives
    made = Counter(
        call["api"].removeprefix("nccl") for call in calls if call["api"].startswith("ncclComm")
    )
    for asked in ("CommUserRank", "CommCount"):
        made.pop(asked, None)
    assert Counter(r["op"] for r in rows if r["op"].startswith("Comm")) == made
    check_communicators(rows)
    check_groups(rows)
    check_kernels(recording, client.pid, calls)


def check_communicators(rows: list[dict[str, Any]]) -> None:
    """Both ranks of a communicator agree on which it is; its name is the application's."""
    hashes: dict[str, set[int]] = {}
    for row in rows:
        if row["op"] in ("CommInitRankConfig", "CommInitRankScalable"):
            hashes.setdefault(row["op"], set()).add(row["comm_hash"])
            assert row["nranks"] == 2
    assert {op: len(found) for op, found in hashes.items()} == {
        "CommInitRankConfig": 2, "CommInitRankScalable": 1,
    }  # fmt: skip
    assert {r["result"] for r in rows if r["op"] == "CommInitRankConfig"} == {0, 7}
    named = {row["comm_name"] for row in rows if row["op"] == "Reduce"}
    assert named == {"gradients"}
    gathered = [r for r in rows if r["op"] == "AllGather" and r["bytes"] == 2 * 4 * 2]
    assert sorted(row["rank"] for row in gathered) == [0, 1]
    assert len({row["comm_hash"] for row in gathered}) == 1
    alone = {r["comm_hash"] for r in rows if r["op"] == "CommAbort"}
    assert len(alone) == 2


def check_groups(rows: list[dict[str, Any]]) -> None:
    """The calls of a group and its outermost end share a number."""
    groups: dict[tuple[int, int], list[str]] = {}
    for row in rows:
        if row["group_id"] is not None:
            groups.setdefault((row["tid"], row["group_id"]), []).append(row["op"])
    assert Counter(tuple(sorted(ops)) for ops in groups.values()) == {
        ("GroupEnd", "Recv", "Send"): 2 * TIMES,
        ("AllReduce",): 2,
    }


def check_kernels(recording: Recording, pid: int, calls: list[dict[str, Any]]) -> None:
    """Each kernel that NCCL launched is tied to its operation."""
    rows = recording.sql(
        "select nccl_op, count(*) as n from cuda_events "
        f"where pid = {pid} and op = 'launch' group by all"
    )
    launched = Counter(c["nccl"] for c in calls if c["op"] == "launch")
    # One kernel serves the send and the receive of a group: it is the group's.
    launched["GroupEnd"] = launched.pop("SendRecv")
    assert {row["nccl_op"]: row["n"] for row in rows} == dict(launched)
    rows = recording.sql(
        "select nccl_op, bytes, count(*) as n from cuda_events "
        f"where pid = {pid} and op = 'memset' group by all"
    )
    assert rows == [{"nccl_op": None, "bytes": 157, "n": 2 * TIMES}]


# As nccl.h declares them: operation, and the places of the peer and of the stream among the words.
SINCE_2_27 = {
    "ncclSignal": ("Signal", 0, 5),
    "ncclWaitSignal": ("WaitSignal", None, 3),
    "ncclCommSuspend": ("CommSuspend", None, None),
    "ncclCommResume": ("CommResume", None, None),
    "ncclCommRegister": ("CommRegister", None, None),
    "ncclCommDeregister": ("CommDeregister", None, None),
    "ncclCommWindowRegister": ("CommWindowRegister", None, None),
    "ncclCommWindowDeregister": ("CommWindowDeregister", None, None),
    "ncclDevCommCreate": ("DevCommCreate", None, None),
    "ncclDevCommDestroy": ("DevCommDestroy", None, None),
}


# A function that goes on as another, as compilers make one whose last act is a call.
GOES_ON = """
#include "stub_function.h"
STUB(ncclAllReduce)
STUB(ncclBroadcast)
__asm__(".text\\n.globl ncclBcast\\n.type ncclBcast,@function\\nncclBcast:\\n"
	"push %rbp\\npop %rbp\\njmp ncclBroadcast@PLT\\n.size ncclBcast,.-ncclBcast\\n");
"""


def test_a_function_that_goes_on_as_another_is_one_row(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    client, source = build_client(tmp_path / "caller", "caller"), tmp_path / "nccl.c"
    source.write_text(GOES_ON)
    library = compile_c(tmp_path / "libnccl.so.2", source, "-shared", "-fPIC")
    with record(store) as recording:
        process = cgroup.popen([client, library], stdin=subprocess.PIPE)
        recording.wait_probed(library)
        process.communicate("ncclBcast 101 0\nncclAllReduce 23 0\n", timeout=60)
    rows = recording.sql(
        "select api, result, count(*) as n from nccl_events "
        f"where pid = {process.pid} group by all order by api"
    )
    assert [tuple(row.values()) for row in rows] == [
        ("ncclAllReduce", 0, 23),
        ("ncclBroadcast", 0, 101),
    ]
    (notes,) = recording.sql("select notes from sessions")
    assert json.loads(notes["notes"])["stale_frame"] == 101


def test_what_newer_versions_added_is_a_row_with_its_arguments(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    client = build_client(tmp_path / "caller", "caller")
    library = build_library(tmp_path / "libnccl.so.2", ["ncclAllReduce", *SINCE_2_27])
    times = dict(zip(SINCE_2_27, (3, 5, 7, 11, 13, 17, 19, 23, 29, 31), strict=True))
    lines = [f"{symbol} {n} {n % 7} 41 42 43 44 45 46" for symbol, n in times.items()]
    with record(store) as recording:
        process = cgroup.popen([client, library], stdin=subprocess.PIPE)
        assert process.stdin is not None
        recording.wait_probed(library)
        process.communicate("\n".join(lines) + "\n", timeout=60)
    rows = recording.sql(
        "select api, op, peer, stream, result, count(*) as n from nccl_events "
        f"where pid = {process.pid} group by all"
    )
    words = (41, 42, 43, 44, 45, 46)
    assert {tuple(row.values()) for row in rows} == {
        (
            symbol,
            op,
            None if peer is None else words[peer],
            None if stream is None else words[stream],
            times[symbol] % 7,
            times[symbol],
        )
        for symbol, (op, peer, stream) in SINCE_2_27.items()
    }


def test_what_is_told_of_communicators_is_told_of_the_tenant_that_made_them(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    symbols = ["ncclCommInitAll", "ncclCommGrow", "ncclCommUserRank", "ncclAllReduce"]
    library = str(build_library(tmp_path / "libnccl.so.2", symbols))
    with record(store, cotenant=(sys.executable, "-c", DEAF)) as recording:
        script = Script(cgroup, TELL.replace("LIBRARY", repr(library)))
        script.heard()
        recording.wait_probed(library)
        script.go_on()
        script.end()
    lost = recording.sql(
        "select distinct cgroup_path as path from losses join containers using (cgroup_id) "
        f"where reason = '{FACTS_LOST.name}' and family = 'nccl'"
    )
    # What is told of nobody would be a second one.
    assert lost == [{"path": f"/{cgroup.name}"}]
