"""Ranks that wait for each other, and groups that launch at their end."""

import json
import subprocess
import sys
import textwrap
import time

import pytest

from cotenant import sim

RANKS = 3
STEPS = 11
COMMS = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
nccl = ctypes.CDLL("libnccl.so.2")
assert cuda.cuInit(0) == 0
comms = (ctypes.c_void_p * 2)()
assert nccl.ncclCommInitAll(comms, 2, None) == 0
contexts, streams = [], []
for device in range(2):
    context, stream = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuStreamCreate(ctypes.byref(stream), 1) == 0
    contexts.append(context)
    streams.append(stream)
size = ctypes.c_size_t
def wait():
    for context in contexts:
        assert cuda.cuCtxSetCurrent(context) == 0
        assert cuda.cuCtxSynchronize() == 0
comm = [ctypes.c_void_p(c) for c in comms]
"""


@pytest.fixture
def script(tmp_path, device):
    """Run Python lines on two devices with two ranks; the NCCL and launch lines of the log."""

    def run(lines):
        log = tmp_path / "truth.jsonl"
        extra = {**device, "COTENANT_SIM_DEVICES": "2", "COTENANT_SIM_LOG": str(log)}
        program = COMMS + textwrap.dedent(lines)
        line = [sys.executable, "-c", program]
        subprocess.run(line, env=sim.environment(extra), check=True, timeout=60)
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        rows.sort(key=lambda row: row["t_begin"])
        return [row for row in rows if row["op"] in ("nccl", "launch")]

    return run


@pytest.fixture
def train(tmp_path, device, start):
    """Start the ranks of a training job; each logs to a file of its own."""

    def begin(**extra):
        started = []
        for rank in range(RANKS):
            env = {**device, **extra, "COTENANT_SIM_LOG": f"{tmp_path}/rank{rank}.jsonl"}
            arguments = ["--steps", str(STEPS), "--ranks", str(RANKS), "--rank", str(rank)]
            line = sim.command("train", [*arguments, "--id-file", f"{tmp_path}/id"])
            started.append(start(line, env))
        return started

    return begin


def _log(tmp_path, rank):
    rows = (tmp_path / f"rank{rank}.jsonl").read_text().splitlines()
    return sorted((json.loads(row) for row in rows), key=lambda row: row["t_begin"])


def test_every_rank_logs_every_collective_of_one_communicator(tmp_path, train):
    for process in train():
        assert process.wait(timeout=60) == 0
    seen = []
    for rank in range(RANKS):
        rows = [row for row in _log(tmp_path, rank) if row.get("nccl") == "AllReduce"]
        calls = [row for row in rows if row["op"] == "nccl"]
        kernels = [row for row in rows if row["op"] == "launch"]
        assert [(c["bytes"], c["datatype"], c["reduce_op"]) for c in calls] == [
            (4 << 20, 7, 0)
        ] * STEPS
        assert {(c["rank"], c["nranks"]) for c in calls} == {(rank, RANKS)}
        assert [k["api"] for k in kernels] == ["cuLaunchKernelEx"] * STEPS
        # the kernel is launched inside the call, on its thread
        for call, kernel in zip(calls, kernels, strict=True):
            assert call["t_begin"] <= kernel["t_begin"] <= kernel["t_end"] <= call["t_end"]
            assert call["tid"] == kernel["tid"]
        seen.append({c["comm_hash"] for c in calls})
    assert seen[0] == seen[1] == seen[2]
    assert len(seen[0]) == 1


def test_no_rank_finishes_a_collective_before_the_last_has_begun_it(tmp_path, train):
    for process in train():
        assert process.wait(timeout=60) == 0
    kernels = [
        [row for row in _log(tmp_path, rank) if row.get("nccl") and row["op"] == "launch"]
        for rank in range(RANKS)
    ]
    for ranks in zip(*kernels, strict=True):
        begun = max(row["device_start"] for row in ranks)
        assert all(row["device_end"] > begun for row in ranks)


def _finished_calls(tmp_path):
    counts = []
    for rank in range(RANKS):
        path = tmp_path / f"rank{rank}.jsonl"
        rows = _log(tmp_path, rank) if path.exists() else []
        counts.append(sum(row["op"] == "nccl" and row["nccl"] == "AllReduce" for row in rows))
    return counts


def test_a_rank_that_hangs_holds_the_others(tmp_path, train):
    ranks = train(COTENANT_SIM_NCCL_HANG="1:3", COTENANT_SIM_LOG_SYNC="1")
    # three are done; the others enter and leave a fourth call, and then wait on the device
    stuck = [4, 3, 4]
    for _ in range(6_000):
        if _finished_calls(tmp_path) == stuck:
            break
        time.sleep(0.01)
    time.sleep(0.2)
    assert [process.poll() for process in ranks] == [None] * RANKS
    assert _finished_calls(tmp_path) == stuck


def test_a_group_launches_at_its_end_and_fuses_sends_and_receives(script):
    rows = script("""
    assert nccl.ncclGroupStart() == 0
    for me, other in ((0, 1), (1, 0)):
        assert nccl.ncclSend(None, size(23), 7, other, comm[me], streams[me]) == 0
        assert nccl.ncclRecv(None, size(23), 7, other, comm[me], streams[me]) == 0
    assert nccl.ncclGroupEnd() == 0
    wait()
    """)
    calls = [row for row in rows if row["op"] == "nccl" and row["nccl"] != "CommInitAll"]
    assert [row["nccl"] for row in calls] == ["Send", "Recv", "Send", "Recv", "GroupEnd"]
    assert [row.get("bytes") for row in calls] == [92, 92, 92, 92, None]
    assert len({row["group"] for row in calls}) == 1
    kernels = [row for row in rows if row["op"] == "launch"]
    assert [row["nccl"] for row in kernels] == ["SendRecv", "SendRecv"]
    end = calls[-1]
    assert all(end["t_begin"] <= row["t_begin"] <= end["t_end"] for row in kernels)


def test_bcast_is_one_call_that_broadcasts(script):
    rows = script("""
    assert nccl.ncclGroupStart() == 0
    for me in range(2):
        assert nccl.ncclBcast(None, size(7), 8, 1, comm[me], streams[me]) == 0
    assert nccl.ncclGroupEnd() == 0
    wait()
    """)
    calls = [row for row in rows if row["op"] == "nccl" and "root" in row]
    assert [(row["api"], row["nccl"], row["root"], row["bytes"]) for row in calls] == [
        ("ncclBcast", "Broadcast", 1, 56)
    ] * 2


def test_a_split_makes_communicators_of_those_with_one_color(script):
    rows = script("""
    import threading
    made = [ctypes.c_void_p(), ctypes.c_void_p()]
    def split(me):
        assert nccl.ncclCommSplit(comm[me], 5, 1 - me, ctypes.byref(made[me]), None) == 0
    threads = [threading.Thread(target=split, args=(me,)) for me in range(2)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    rank = ctypes.c_int()
    assert nccl.ncclCommUserRank(made[0], ctypes.byref(rank)) == 0
    assert rank.value == 1
    """)
    splits = [row for row in rows if row.get("nccl") == "CommSplit"]
    assert sorted((row["rank"], row["nranks"]) for row in splits) == [(0, 2), (1, 2)]
    assert len({row["comm_hash"] for row in splits}) == 1
