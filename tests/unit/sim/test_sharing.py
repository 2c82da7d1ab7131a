"""Several processes on one device."""

import json
import signal
import subprocess

import pytest

from cotenant import sim
from tests.unit.sim import workloads

KERNEL_NS = 200_000


@pytest.fixture
def tenants(tmp_path, device, start):
    """Start workloads that load, wait for each other, and log; ended after the test."""

    def begin(*lines, extra=()):
        started = []
        for number, line in enumerate(lines):
            env = {
                **device,
                "COTENANT_SIM_LOG": f"{tmp_path}/{number}.jsonl",
                "COTENANT_SIM_KERNEL_NS": f"*={KERNEL_NS}",
                **dict(extra),
            }
            command = sim.command(line[0], [*line[1:], "--start-on", f"{tmp_path}/go"])
            started.append(start(command, env))
        (tmp_path / "go").touch()
        return started

    return begin


def _kernels(tmp_path, number):
    lines = (json.loads(x) for x in (tmp_path / f"{number}.jsonl").read_text().splitlines())
    return [line for line in lines if line["op"] == "launch"]


def test_tenants_slow_each_other_by_the_declared_factor_while_both_are_busy(tmp_path, tenants):
    for process in tenants(("noisy", "--steps", "1009"), ("noisy", "--steps", "2003")):
        assert process.wait(timeout=120) == 0
    first, second = (_kernels(tmp_path, number) for number in range(2))
    overlap_from = max(min(k["device_start"] for k in ks) for ks in (first, second))
    overlap_to = min(max(k["device_end"] for k in ks) for ks in (first, second))
    took = [
        k["device_end"] - k["device_start"]
        for k in (*first, *second)
        if k["device_start"] >= overlap_from and k["device_end"] <= overlap_to
    ]
    # rounded to nanoseconds; a neighbour may be idle for a moment between two waits
    assert max(took) in range(KERNEL_NS * 3 // 2 - 1, KERNEL_NS * 3 // 2 + 2)
    assert sorted(took)[len(took) // 2] == pytest.approx(KERNEL_NS * 1.5, rel=0.01)
    alone = [k["device_end"] - k["device_start"] for k in second if k["device_start"] > overlap_to]
    assert alone
    assert set(alone) <= set(range(KERNEL_NS - 1, KERNEL_NS + 2))


def test_a_killed_process_leaves_the_device_usable(tmp_path, tenants, device):
    victims = tenants(*[("noisy", "--steps", "100000000")] * 3)
    (tmp_path / "done").touch()
    for process in victims:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
        process.send_signal(signal.SIGKILL)
        process.wait()
    counts = workloads.run("noisy", ["--steps", "101"], extra=device)
    assert counts["calls"]["cuLaunchKernel"] == 101


def test_a_process_without_the_shared_file_has_a_device_of_its_own(tmp_path, device):
    extra = {**device, "COTENANT_SIM_DEVICE": f"{tmp_path}/no/such/directory/gpu"}
    assert workloads.run("mix", ["--steps", "101"], extra=extra)["steps"] == 101


def test_memory_is_shared_by_all_processes(tmp_path, device):
    program = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
print(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(600)), flush=True)
sys.stdin.read()
"""
    env = sim.environment({**device, "COTENANT_SIM_MEMORY": "1000"})
    line = ["python3", "-c", program]
    first, second = (
        subprocess.Popen(line, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    )
    answers = sorted(p.stdout.readline().strip() for p in (first, second))
    for process in (first, second):
        process.communicate("")
    assert answers == ["0", "2"]


def test_freed_memory_is_that_of_no_kernel_in_flight(tmp_path, device):
    program = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, module, kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
address = ctypes.c_uint64()
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
cuda.cuModuleLoadData(ctypes.byref(module), b"image")
cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"kernel")
cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(4096))
cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, None, None)
cuda.cuMemFree_v2(address)
"""
    log = tmp_path / "truth.jsonl"
    extra = {"COTENANT_SIM_KERNEL_NS": "*=50000000", "COTENANT_SIM_LOG": str(log)}
    env = sim.environment({**device, **extra})
    subprocess.run(["python3", "-c", program], env=env, check=True)
    calls = {line["op"]: line for line in map(json.loads, log.read_text().splitlines())}
    assert calls["free"]["t_end"] >= calls["launch"]["device_end"]
