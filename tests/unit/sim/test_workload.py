"""Workloads: what they say they did is what the libraries saw."""

import itertools
import subprocess
from collections import Counter

import pytest

from cotenant import sim

APIS = ("driver", "runtime12", "runtime13")
STEPS = 1009


def _totals(lines):
    """What the log says in the words of the workload's summary."""
    made = {
        (line.get("outer", line["api"]), line["tid"], line.get("outer_begin", line["t_begin"]))
        for line in lines
    }
    calls = Counter(name for name, _, _ in made)
    kernels = Counter(line["kernel"] for line in lines if line["op"] == "launch")
    copied = Counter()
    for line in lines:
        if line["op"] == "memcpy":
            copied[line["direction"]] += line["bytes"]
    return calls, kernels, copied


@pytest.mark.parametrize("api", APIS)
def test_the_summary_is_what_the_log_says(truth, api):
    counts, lines = truth(
        "mix", "--api", api, "--steps", str(STEPS), "--threads", "3", "--streams", "2",
        "--kernels", "13", "--seed", "5",
    )  # fmt: skip
    calls, kernels, copied = _totals(lines)
    assert {name: calls[name] for name in counts["calls"]} == counts["calls"]
    assert kernels == counts["launches"]
    assert copied == counts["bytes"]
    assert {line["result"] for line in lines} == {0}


def test_the_seed_decides_everything(truth):
    first, _ = truth("mix", "--steps", str(STEPS), "--seed", "7")
    again, _ = truth("mix", "--steps", str(STEPS), "--seed", "7")
    other, _ = truth("mix", "--steps", str(STEPS), "--seed", "8")
    assert first["calls"] == again["calls"]
    assert first["bytes"] == again["bytes"]
    assert first["bytes"] != other["bytes"]


@pytest.mark.parametrize("api", ["runtime12", "runtime13"])
def test_the_runtime_asks_which_gpu_each_device_is_before_it_uses_one(truth, api):
    _, lines = truth("mix", "--api", api, "--steps", "3", COTENANT_SIM_DEVICES="3")
    about_devices = ("cuDeviceGetUuid_v2", "cuDevicePrimaryCtxRetain")
    assert [line["api"] for line in lines if line["api"] in about_devices] == [
        *["cuDeviceGetUuid_v2"] * 3,
        "cuDevicePrimaryCtxRetain",
    ]


@pytest.mark.parametrize("api", ["runtime12", "runtime13"])
def test_a_runtime_call_is_one_driver_call(truth, api):
    _, lines = truth("mix", "--api", api, "--steps", str(STEPS))
    pairs = {(line["outer"], line["api"]) for line in lines if line["op"] == "launch"}
    assert pairs == {("cudaLaunchKernel", "cuLaunchKernel")}
    inside = Counter((line["outer"], line["outer_begin"]) for line in lines if line["op"] in OPS)
    assert set(inside.values()) == {1}


OPS = {"launch", "memcpy", "memset", "alloc", "free", "sync"}


def test_operations_of_a_stream_run_in_order_and_not_before_they_were_called(truth):
    _, lines = truth("mix", "--steps", str(STEPS), "--streams", "3")
    placed = [line for line in lines if "device_start" in line and "stream" in line]
    assert all(line["device_final"] for line in placed)
    for stream in {line["stream"] for line in placed}:
        queue = sorted((x for x in placed if x["stream"] == stream), key=lambda x: x["t_begin"])
        assert all(x["device_start"] >= x["t_begin"] for x in queue)
        assert all(x["device_end"] > x["device_start"] for x in queue)
        pairs = itertools.pairwise(queue)
        # times are rounded to whole nanoseconds
        assert all(b["device_start"] >= a["device_end"] - 1 for a, b in pairs)


def test_a_wait_returns_after_the_work_is_done(truth):
    _, lines = truth("train", "--steps", "23", COTENANT_SIM_KERNEL_NS="*=1000000")
    ended = 0
    for line in sorted(lines, key=lambda x: x["t_begin"]):
        ended = max(ended, line.get("device_end", 0))
        if line["op"] == "sync":
            assert line["t_end"] >= ended - 1
    assert ended > 23 * 3 * 1_000_000


def test_a_kernel_takes_the_time_that_was_declared_for_it(truth):
    _, lines = truth(
        "launch", "--steps", "101", "--kernels", "3",
        COTENANT_SIM_KERNEL_NS="gemm=70000,softmax=11000,*=500",
    )  # fmt: skip
    took = {}
    for line in lines:
        if line["op"] == "launch":
            took.setdefault(line["kernel"], set()).add(line["device_end"] - line["device_start"])
    assert {name: round(min(ns), -1) for name, ns in took.items()} == {
        "_Z11gemm_kernelIfEvPKT_S2_PS0_iii": 70_000,
        "_Z14softmax_kernelPKfPfi": 11_000,
        "_Z16layernorm_kernelPKfS0_S0_Pfi": 500,
    }


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--steps", "-1"),
        ("--steps", "many"),
        ("--steps", "18446744073709551616"),
        ("--threads", "2147483648"),
        ("--rate", "nan"),
        ("--rate", "-1"),
        ("--kernels", "3x"),
        ("--seed", ""),
    ],
)
def test_a_number_that_is_none_is_one_line_and_exit_code_2(option, value):
    done = subprocess.run(
        sim.command("launch", [option, value]),
        env=sim.environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    said = f"workload: {value} is no number that this option takes\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
