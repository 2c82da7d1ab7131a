"""``cotenant doctor`` on what a recording said about itself; the host's checks are elsewhere."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant.agent.process import Process
from cotenant.agent.protocol.reports import LibraryReport
from cotenant.agent.recorder.processes.layer_choice import LayerChoice
from cotenant.agent.recorder.session_row import SessionRow
from cotenant.agent.refusals import by_reason
from cotenant.store.writer import StoreWriter
from cotenant.views.cli import doctor

STEPPED = "would be single-stepped: starts with sub"
LIBRARIES = [
    LibraryReport(
        path="/usr/lib/x86_64-linux-gnu/libcuda.so.1",
        kinds=("cuda",),
        build_id="aa",
        attached=206,
    ),
    LibraryReport(
        path="/opt/a/place/that/is/long/nvidia/nccl/lib/libnccl.so.2",
        kinds=("cudart", "nccl"),
        build_id="bb",
        attached=169,
        refused={"ncclBcast": STEPPED, "pncclBcast": STEPPED},
        gap_ns=12_300_000,
    ),
    LibraryReport("/tmp/\x1b[2Jlibcuda.so.1", attached=0, refused={"*": "cannot be probed"}),
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    row = SessionRow(node="n", boot_id="b", hierarchy="v2", layers="both", attaching_ns=0)
    row.started(now_ns=1_790_000_000_000_000_000, offset_ns=0, method="session")
    for library in LIBRARIES:
        row.library(library)
    coverage = LayerChoice("both")
    coverage.by_process = {Process(101, 1): [7, 5, 0], Process(103, 1): [1511, 1511, 0]}
    row.layers(coverage, processes=True)
    with StoreWriter(tmp_path / "store", node="n", boot_id="b") as writer:
        writer.replace("sessions", row.table(0))
        writer.seal(1_790_000_000_000_000_000)
    return tmp_path / "store"


def test_each_library_and_process_of_the_last_recording_is_told(store: Path) -> None:
    checks = {check.name: check for check in doctor._recorded(str(store))}
    assert {name: (check.holds, check.found) for name, check in checks.items()} == {
        "last recording": (True, "began 2026-09-21 14:13:20 UTC"),
        "recorded cuda": (
            True, "/usr/lib/x86_64-linux-gnu/libcuda.so.1: 206 attached, no gap",
        ),
        "recorded cudart/nccl": (
            True,
            "/opt/a/place/that/is/long/nvidia/nccl/lib/libnccl.so.2: 169 attached, "
            "gap of 12.3 ms",
        ),
        "recorded ?": (
            False,
            "/tmp/\x1b[2Jlibcuda.so.1: 0 attached, no gap",
        ),
        "recorded process 103": (
            True,
            "launches: 1511 seen in the runtime, 1511 of them also in the driver, "
            "0 in the driver only",
        ),
        "recorded process 101": (
            False,
            "launches: 7 seen in the runtime, 5 of them also in the driver, 0 in the driver only",
        ),
    }  # fmt: skip
    advice = checks["recorded process 101"].advice
    assert advice.startswith("2 launches were not seen in the driver")
    assert checks["recorded cudart/nccl"].advice != ""
    assert checks["recorded cudart/nccl"].more == (f"refused: ncclBcast, pncclBcast: {STEPPED}",)
    assert checks["recorded ?"].more == ("refused: all: cannot be probed",)


def test_it_fits_eighty_columns_and_moves_no_cursor(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for check in doctor._recorded(str(store)):
        doctor._print(check)
    said = capsys.readouterr().out
    assert max(len(line) for line in said.splitlines()) <= 80
    assert "\x1b" not in said


def test_without_a_recording_nothing_is_told(tmp_path: Path) -> None:
    assert list(doctor._recorded(str(tmp_path / "none"))) == []
    StoreWriter(tmp_path / "new", node="n", boot_id="b").close()
    assert list(doctor._recorded(str(tmp_path / "new"))) == []


def test_what_kernel_events_cost_and_what_was_counted_instead_is_said(tmp_path: Path) -> None:
    row = SessionRow(node="n", boot_id="b", hierarchy="v2", layers="both", attaching_ns=0)
    row.started(now_ns=1_790_000_000_000_000_000, offset_ns=0, method="session")
    spent = {"host": 1_250_000_000, "net": 3_000_000}
    families = {name: {"spent_ns": ns, "runs": 7} for name, ns in spent.items()}
    row.note(
        kernel_cost={"families": families, "busiest_cpu_share": 0.0123},
        left_to_totals={"over_budget": {"net": 12_345}, "unix_messages": 67_890},
    )
    with StoreWriter(tmp_path / "store", node="n", boot_id="b") as writer:
        writer.replace("sessions", row.table(0))
        writer.seal(1_790_000_000_000_000_000)
    checks = {check.name: check for check in doctor._recorded(str(tmp_path / "store"))}
    check = checks["recorded kernel events"]
    assert check.found == "programs took host 1.25 s, net 3 ms, at most 1.23 % of a CPU"
    assert check.more == (
        "counted in totals, of tenants without a GPU first: 12,345 net events",
        "counted in totals, of all tenants: 67,890 messages over Unix sockets",
    )


def test_many_refused_functions_are_counted_and_a_few_named() -> None:
    refused = {f"cu{n}": "odd" for n in range(7)} | {"ncclBcast": "even"}
    assert by_reason(refused) == [
        "refused: cu0, cu1, cu2 and 4 more: odd",
        "refused: ncclBcast: even",
    ]


def test_a_program_gets_the_same_as_json(store: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cotenant", "doctor", "--json", "--store", store],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    names = [check["name"] for check in json.loads(done.stdout)]
    assert [name for name in names if name.startswith("recorded")] == [
        "recorded cuda", "recorded cudart/nccl", "recorded ?",
        "recorded process 103", "recorded process 101",
    ]  # fmt: skip
