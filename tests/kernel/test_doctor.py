"""``cotenant doctor`` on a host that can be recorded, and for a user who cannot."""

import json
import subprocess
from pathlib import Path

from tests.kernel.beginnings import POP, build_beginnings
from tests.kernel.conftest import COTENANT, as_nobody, bpf_programs, gone_within


def test_a_capable_host_is_told_so_by_trying(tmp_path: Path) -> None:
    before = bpf_programs()
    done = subprocess.run(
        [*COTENANT, "doctor", "--json", "--store", str(tmp_path / "store")],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    for method in ("session", "multi", "pair"):
        assert checks[f"probes by {method}"]["found"] == "attached to ourselves, and the event came"
    assert checks["mappings by perf"]["holds"]
    assert checks["recorder's confinement"]["holds"]
    assert {
        check["name"] for check in checks.values() if check["needed"] and not check["holds"]
    } == set()
    assert gone_within(before, 60) == set()


def test_each_line_fits_eighty_columns(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COTENANT, "doctor", "--store", str(tmp_path / "store")],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    assert done.stdout.endswith("this host can be recorded\n")


def test_without_root_it_says_what_to_do(tmp_path: Path) -> None:
    done = as_nobody("doctor", "--json", "--store", str(tmp_path / "store"))
    assert done.returncode == 3, done.stderr
    root = json.loads(done.stdout)[0]
    assert (root["name"], root["holds"], root["advice"]) == ("root", False, "run with sudo")


def test_a_driver_whose_launches_would_not_be_seen_is_a_failure(tmp_path: Path) -> None:
    build_beginnings(tmp_path / "libcuda.so.1", launch=POP)
    # Where drivers lie, as this process alone sees it.
    script = (
        "mount -t tmpfs none /opt && mkdir -p /opt/conda/lib && cp $0 /opt/conda/lib && exec $@"
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, str(tmp_path / "libcuda.so.1"),
         *COTENANT, "doctor", "--json", "--store", str(tmp_path / "store")],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    (failed,) = [c for c in json.loads(done.stdout) if c["needed"] and not c["holds"]]
    assert failed["name"] == "library cuda"
    assert failed["found"].startswith("/opt/conda/lib/libcuda.so.1: ")
    assert failed["advice"] == "launches of this driver are not seen"
    assert "cuLaunchKernel" in " ".join(failed["more"])
    assert len(failed["more"]) == len({line.rpartition(": ")[2] for line in failed["more"]})
