"""`cotenant import` on a small recording: what it prints adds up, what it stores is measured."""

import json

import pytest

from cotenant.profiles.importing import compared, found
from cotenant.query.engine.session import Session
from cotenant.store.writer import StoreWriter
from cotenant.views.cli import main
from tests.virtual.device import START_NS, Gpu
from tests.virtual.store import NODE, VirtualStore

US = 1_000
OPERATIONS = 200  # That were profiled.
LATER = 1_200_000_000_000
KERNELS = {"gemm": 2_000 * US, "touch": 300 * US}


def life(process, steps):
    for step in range(steps):
        process.launch("gemm", KERNELS["gemm"])
        if step % 3:
            process.launch("touch", KERNELS["touch"], blocks=2)
        yield from process.sync()
        yield from process.sleep((1 + step % 7) * 100 * US)
    # Long after the profile, and never waited for.
    yield from process.sleep(LATER)
    for _ in range(50):
        process.launch("gemm", KERNELS["gemm"])
        yield from process.sleep(20_000 * US)


@pytest.fixture
def recorded(tmp_path):
    """A store with one tenant, and the trace of its profiler."""
    gpu = Gpu()
    process = gpu.process("train", 1.0)
    gpu.live(process, life(process, 120))
    gpu.run()
    gpu.settle()
    store = VirtualStore(tmp_path / "store")
    store.recording(0, ended_ns=START_NS + gpu.now)
    store.process(process)
    store.complete("cuda")
    root = store.write()
    launches = [row for row in process.rows if row["op"] == "launch"][:OPERATIONS]
    events = []
    for number, (row, (start, end)) in enumerate(zip(launches, sorted(process.ran), strict=False)):
        args = {"correlation": number + 1}
        ts = (row["timestamp_ns"] - START_NS) / 1000
        call = {"ph": "X", "cat": "cuda_driver", "name": "cuLaunchKernel", "pid": 3, "tid": 4}
        events.append(call | {"ts": ts, "dur": 1.5, "args": args})
        args |= {"grid": [row["grid_x"], 1, 1], "block": [row["block_x"], 1, 1]}
        kernel = {"ph": "X", "cat": "kernel", "name": f"void {row['kernel_name']}<int>(float*)"}
        kernel |= {"ts": start / 1000, "dur": (end - start) / 1000, "pid": 0, "tid": 7}
        events.append(kernel | {"args": args})
    trace = {"schemaVersion": 1, "baseTimeNanoseconds": START_NS + 777_000, "traceEvents": events}
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(trace))
    return root, file


def test_kernels_add_up_to_what_the_device_did(recorded):
    root, file = recorded
    profile = found(file, lambda a, b: Session(root, from_ns=a, to_ns=b))
    with Session(root, to_ns=START_NS + LATER) as session:
        *kernels, every = compared(profile, session)
    true = {"gemm": 120 * KERNELS["gemm"], "touch": 80 * KERNELS["touch"]}
    assert profile.matched == len(profile.operations) == every.operations
    assert {one.kernel_name: one.measured_ns for one in kernels} == pytest.approx(true, rel=1e-4)
    for name in ("operations", "measured_ns", "known", "estimated_ns", "low_ns", "high_ns"):
        assert getattr(every, name) == pytest.approx(sum(getattr(one, name) for one in kernels))
    assert every.error == pytest.approx(0, abs=0.03)
    assert every.low_ns <= every.measured_ns <= every.high_ns


def test_times_are_stored_once_and_are_evidence(recorded, capsys):
    root, file = recorded
    assert main(["import", str(file), "--compare", "--store", str(root)]) == 0
    out = capsys.readouterr().out
    assert "matched 200 of 200 operations (100 %)" in out
    assert "GPU time of train: measured" in out
    for said in ("stored 200 device times", "stored 0 device times"):
        assert main(["import", str(file), "--store", str(root)]) == 0
        assert said in capsys.readouterr().out
    with Session(root, to_ns=START_NS + LATER) as session:
        rows = session.ask(
            "select gpu_ns, gpu_ns_source from cuda_events where op = 'launch'"
        ).rows()
        times = session.ask("select * from operation_times order by time_ns").rows()
    assert {row["gpu_ns_source"] for row in rows} == {"imported"}
    measured = 120 * KERNELS["gemm"] + 80 * KERNELS["touch"]
    assert sum(row["gpu_ns"] for row in rows) == pytest.approx(measured, rel=1e-4)
    assert [row["time_ns"] for row in times] == pytest.approx(sorted(KERNELS.values()), rel=0.01)


def test_imported_times_are_evidence_later_though_less_exact(recorded):
    root, file = recorded
    sql = "select source, samples, time_ns, low_ns, high_ns from operation_times"
    with Session(root, from_ns=START_NS + LATER) as session:
        assert [row["source"] for row in session.ask(sql).rows()] == ["none"]
    assert main(["import", str(file), "--store", str(root)]) == 0
    with Session(root, from_ns=START_NS + LATER) as session:
        (row,) = session.ask(sql).rows()
        (use,) = session.ask("select source, work_ns, gpu_time_ns from gpu_use").rows()
    assert (row["source"], row["samples"]) == ("imported", 120)
    assert row["time_ns"] == pytest.approx(KERNELS["gemm"], rel=1e-3)
    # Two half-lives: three quarters of the way to a factor of 1.5.
    assert row["high_ns"] / row["time_ns"] == pytest.approx(1.02 * 1.5**0.75, rel=0.02)
    assert row["time_ns"] / row["low_ns"] == pytest.approx(1.02 * 1.5**0.75, rel=0.02)
    assert use["source"] == "imported"
    assert use["work_ns"] == pytest.approx(50 * KERNELS["gemm"], rel=0.01)


def test_another_program_is_refused_in_one_line(recorded, capsys):
    root, file = recorded
    file.write_text(file.read_text().replace("gemm", "conv").replace("touch", "pool"))
    assert main(["import", str(file), "--store", str(root)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "of a program that was not recorded" in err


def test_a_store_that_is_being_recorded_is_refused_but_compared(recorded, capsys):
    root, file = recorded
    with StoreWriter(root, node=NODE, boot_id="boot-1"):
        assert main(["import", str(file), "--compare", "--store", str(root)]) == 0
        assert main(["import", str(file), "--store", str(root)]) == 1
    assert capsys.readouterr().err.count("\n") == 1
