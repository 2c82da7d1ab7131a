"""The truth log: where it goes, and what survives."""

import json
import signal
import subprocess
import time

import pytest

from cotenant import sim
from cotenant.errors import CotenantError
from tests.unit.sim import workloads


def _lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", ["{dir}", "{dir}/log-%p"])
def test_each_process_can_have_a_file_of_its_own(tmp_path, device, name):
    logs = tmp_path / "logs"
    logs.mkdir()
    extra = {**device, "COTENANT_SIM_LOG": name.format(dir=logs)}
    pids = [workloads.run("launch", ["--steps", "7"], extra=extra)["pid"] for _ in range(3)]
    names = {f"{pid}.jsonl" if name == "{dir}" else f"log-{pid}" for pid in pids}
    assert {path.name for path in logs.iterdir()} == names
    for path in logs.iterdir():
        assert sum(line["op"] == "launch" for line in _lines(path)) == 7


def test_what_is_written_at_once_survives_a_kill(tmp_path, device):
    log = tmp_path / "truth.jsonl"
    extra = {**device, "COTENANT_SIM_LOG": str(log), "COTENANT_SIM_LOG_SYNC": "1"}
    line = sim.command("launch", ["--steps", "1000000", "--pause-after", "23", "--resume-on", "x"])
    process = subprocess.Popen([*line, "--ready", f"{tmp_path}/ready"], env=sim.environment(extra))
    while not (tmp_path / "ready").exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert sum(row["op"] == "launch" for row in _lines(log)) == 23


def test_elapsed_time_is_the_time_of_the_kernel_between_the_events(tmp_path, device):
    log = tmp_path / "truth.jsonl"
    extra = {
        **device, "COTENANT_SIM_LOG": str(log), "COTENANT_SIM_KERNEL_NS": "client_tick=1250000",
    }  # fmt: skip
    client = str(sim.library_dir() / "client")
    line = [client, "cuEventElapsedTime_v2", "7"]
    subprocess.run(line, env=sim.environment(extra), check=True, stdout=subprocess.DEVNULL)
    elapsed = [row["elapsed_ms"] for row in _lines(log) if row["op"] == "elapsed"]
    # the first event is recorded on an idle stream, a moment before the launch
    assert len(elapsed) == 7
    assert min(elapsed) >= 1.25


def test_a_graph_runs_each_of_its_kernels_once_per_launch(tmp_path, device):
    log = tmp_path / "truth.jsonl"
    client = str(sim.library_dir() / "client")
    env = sim.environment({**device, "COTENANT_SIM_LOG": str(log)})
    subprocess.run([client, "cuGraphLaunch", "11"], env=env, check=True, stdout=subprocess.DEVNULL)
    rows = _lines(log)
    captured = [row for row in rows if row.get("captured")]
    launched = [row for row in rows if row["op"] == "graph_launch"]
    kernels = [row for row in rows if row["op"] == "graph_kernel"]
    assert [len(captured), len(launched), len(kernels)] == [1, 11, 11]
    assert "device_start" not in captured[0]
    assert {row["graph"] for row in (*captured, *launched, *kernels)} == {captured[0]["graph"]}
    assert {row["kernel"] for row in kernels} == {captured[0]["kernel"]}
    spans = [(row["device_start"], row["device_end"]) for row in kernels]
    assert [(row["device_start"], row["device_end"]) for row in launched] == spans


def test_a_workload_that_fails_is_an_error_with_its_message():
    with pytest.raises(CotenantError, match="usage: workload"):
        workloads.run("train", ["--kernels", "99"])


def test_a_program_of_ones_own_is_run_as_it_is():
    assert sim.command("./a.out", ["-v"]) == ["./a.out", "-v"]


def test_missing_libraries_are_an_error_that_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("COTENANT_SIM_DIR", str(tmp_path))
    with pytest.raises(CotenantError, match="make -C sim"):
        sim.library_dir()
