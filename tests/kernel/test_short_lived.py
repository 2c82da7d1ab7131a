"""Containers that come and go: seen from their first call, told where not, nothing left behind."""

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.compiler import build_library
from tests.kernel.conftest import SIM, Recording, record
from tests.kernel.containers import (
    CGROUPS,
    PLACE,
    Container,
    brief_root,
    copy_needed,
    runc_cgroups,
)
from tests.lacking import lacking

LIBRARIES = ("libcuda.so.1", "libcudart.so.12", "libcudart.so.13", "libnccl.so.2")
MANY = 211
HELD = ("link_id", "map_id", "prog_id")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What all containers share: a program, and no library of ours."""
    if shutil.which("runc") is None:
        lacking("containers", "runc is not installed")
    root = brief_root(tmp_path_factory.mktemp("base") / "root")
    for name in LIBRARIES:
        copy_needed(root, SIM / name)
    return root


@pytest.fixture(autouse=True)
def _cgroups() -> Iterator[None]:
    with runc_cgroups():
        yield


def recorded(recording: Recording, container: Container) -> list[int]:
    """The numbers of the calls that were recorded in a container."""
    rows = recording.sql(
        "select grid_x from cuda_events join containers using (cgroup_id) "
        f"where cgroup_path like '%{container.name}%' and op = 'launch' order by 1"
    )
    return [row["grid_x"] for row in rows]


def calls(container: Container) -> list[int]:
    """When its program began each call, after when it opened the library."""
    return [int(word) for word in (container.log / "calls").read_text().split()]


def libraries(recording: Recording) -> list[dict[str, Any]]:
    return json.loads(recording.sql("select libraries from sessions")[0]["libraries"])


def test_a_container_of_fifty_milliseconds_is_recorded_whole(base: Path, tmp_path: Path) -> None:
    # Where others leave us no CPU before it starts, a call may be missed; then the gap says so.
    for attempt in range(3):
        place = tmp_path / str(attempt)
        place.mkdir()
        containers = [Container(base, place / f"c{n}") for n in range(3)]
        with record(place / "store") as recording:
            for container in containers:
                for name in LIBRARIES:
                    container.add(SIM / name, f"{PLACE}/{name}")
                container.run("/brief", "/log/calls", "101", "490")
        assert [len(calls(container)) for container in containers] == [2 + 101] * 3
        found = [recorded(recording, container) for container in containers]
        if found == [list(range(1, 102))] * 3:
            return
        assert any(library["gap_ns"] for library in libraries(recording))
    assert found == [list(range(1, 102))] * 3


def test_a_library_that_nobody_could_know_shows_its_gap(
    base: Path, store: Path, tmp_path: Path
) -> None:
    container = Container(base, tmp_path / "late")
    library = build_library(tmp_path / "libcuda.so.1", ["cuLaunchKernel"])
    container.add(library, "data/engine.bin")
    with record(store) as recording:
        running = container.start("/brief", "/log/calls", "0", "211", "/data/engine.bin")
        recording.wait_probed("/data/engine.bin")
        (container.log / "calls.enough").touch()
        assert running.wait(timeout=60) == 0
        container.remove()
    before, after, *began = calls(container)
    seen = set(recorded(recording, container))
    found = libraries(recording)
    (gap,) = [lib["gap_ns"] for lib in found if lib["path"] == "/data/engine.bin"]
    assert gap > 0
    longest = max(lib["gap_ns"] or 0 for lib in found)
    assert recording.sql("select attach_gap_ns from sessions") == [{"attach_gap_ns": longest}]
    # It was mapped between ``before`` and ``after``; what was missed lies within the gap.
    missed = [when for number, when in enumerate(began, 1) if number not in seen]
    assert [when for when in missed if when >= after + gap] == []
    assert len(seen) == len(began) - len(missed) > 0
    assert seen >= {number for number, when in enumerate(began, 1) if when >= after + gap}
    assert before <= after


def held(pid: int, mine: Path) -> Counter[str]:
    """Descriptors of a process, and what the kernel's BPF objects among them are.

    Libraries of others do not count: they may come and go meanwhile, too.
    """
    found: Counter[str] = Counter()
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            lines = info.read_text().splitlines()
            path = Path(f"/proc/{pid}/fd/{info.name}").readlink()
        except OSError:
            continue
        for line in lines:
            if line.startswith("path:"):  # Of a link on functions.
                path = Path(line.removeprefix("path:").strip())
        ours = path.is_relative_to(mine) or path.is_relative_to(f"/{PLACE}")
        if ".so" in path.name and not ours:
            continue
        found["fd"] += 1
        found.update(word for line in lines if (word := line.partition(":")[0]) in HELD)
    return found


def test_containers_that_come_and_go_leave_nothing_behind(
    base: Path, store: Path, tmp_path: Path
) -> None:
    library = build_library(tmp_path / "libcuda.so.1", ["cuLaunchKernel", "cuMemFree_v2"])
    with record(store) as recording:
        pids = (recording.helper(), recording.process.pid)
        before = [held(pid, tmp_path) for pid in pids]
        for number in range(MANY):
            container = Container(base, tmp_path / f"c{number}")
            container.add(library, f"{PLACE}/libcuda.so.1")
            container.run("/brief", "/log/calls", "3", "0")
        # Each had an inode and a link of its own.
        assert held(pids[0], tmp_path)["link_id"] > before[0]["link_id"]
        deadline = time.monotonic() + 90
        while (after := [held(pid, tmp_path) for pid in pids]) != before:
            if time.monotonic() > deadline:
                break
            time.sleep(0.5)
        assert after == before
    (rows,) = recording.sql(
        "select count(*) as n from cuda_events join containers using (cgroup_id) "
        f"where cgroup_path like '%{CGROUPS}%' and op = 'launch'"
    )
    told = [lib for lib in libraries(recording) if lib["gap_ns"] or not lib["attached"]]
    # Where a call was missed, its library says so.
    assert rows["n"] == 3 * MANY or told != []
