"""Probes on functions that begin in every way, and on the drivers themselves: exact, or refused."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cotenant.probes.elf import Elf
from cotenant.probes.library import Plan, plan
from cotenant.probes.sites import Kind, Stepping
from cotenant.probes.tables import FUNCTIONS
from tests.kernel.beginnings import BEGINNINGS, SYMBOLS, Beginning, build_beginnings
from tests.kernel.conftest import Cgroup, Recording, new_cgroup, record
from tests.kernel.drivers import PACKAGES, real_drivers
from tests.kernel.script import Script

# Counts for a function: none, one, many, beyond a register's lower half.
COUNTS = (0, 1, 509, 70_001, 5_000_000_029)
MANY = 20_000
MODERN = [name for name in PACKAGES if name != "450"]
UNITS = {"D16": 2, "D32": 4}

BEGIN = """
lib = ctypes.CDLL(PATH)
SYMBOLS, COUNTS = GIVEN
def calls():
    return {s: [getattr(lib, s)(c_uint64(7), c_uint64(5), c_uint64(n), None) for n in COUNTS]
            for s in SYMBOLS}
say(results=calls())
wait()
say(results=calls())
"""

DRIVER = """
lib = ctypes.CDLL(PATH)
at, size = c_uint64(), c_uint64
def calls():
    return {
        "cuLaunchKernel": [
            lib.cuLaunchKernel(None, 3 + n, 5, 7, 32, 2, 1, 11, c_void_p(0x5000 + n), None, None)
            for n in range(7)],
        "cuMemAlloc_v2": [lib.cuMemAlloc_v2(byref(at), size(1009 + n)) for n in range(5)],
        "cuMemcpyHtoD_v2": [
            lib.cuMemcpyHtoD_v2(size(0x7000), None, size(4001 + n)) for n in range(11)],
        "cuMemFree_v2": [lib.cuMemFree_v2(size(0x7000 + n)) for n in range(3)],
        "cuStreamSynchronize": [lib.cuStreamSynchronize(c_void_p(0x6000 + n)) for n in range(13)],
        "cuMemsetD32_v2": [lib.cuMemsetD32_v2(size(0x7000), 1, size(101 + n)) for n in range(17)],
    }
say(results=calls())
wait()
say(results=calls())
wait()
for n in range(MANY):
    lib.cuMemcpyHtoD_v2(size(0x7000), None, size(1_000_000 + n))
"""


@dataclass
class Recorded:
    """A client of each library, and what a recording of all of them holds."""

    recording: Recording
    pids: dict[str, int] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    unprobed: dict[str, Any] = field(default_factory=dict)
    libraries: dict[str, Any] = field(default_factory=dict)

    def rows(self, name: str, columns: str, where: str = "true") -> list[dict[str, Any]]:
        return self.recording.sql(
            f"select {columns} from cuda_events where pid = {self.pids[name]} and {where} "
            "order by timestamp_ns"
        )


def client(cgroup: Cgroup, path: Path, name: str) -> Script:
    text = BEGIN if name == "beginnings" else DRIVER.replace("MANY", str(MANY))
    given = repr(([*SYMBOLS.values()], COUNTS))
    return Script(cgroup, text.replace("PATH", repr(str(path))).replace("GIVEN", given))


def record_all(place: Path, paths: dict[str, Path], *options: str) -> Recorded:
    """Each client calls everything without a probe, and then again with."""
    with new_cgroup() as cgroup:
        clients = {name: client(cgroup, path, name) for name, path in paths.items()}
        unprobed = {name: script.heard()["results"] for name, script in clients.items()}
        with record(place, "--budget", "off", *options) as recording:
            done = Recorded(recording, unprobed=unprobed)
            for name, path in paths.items():
                recording.wait_for(f"select 1 from sessions where libraries like '%{path}%'")
                clients[name].go_on()
                done.results[name] = clients[name].heard()["results"]
                done.pids[name] = clients[name].pid
                clients[name].go_on()
                clients[name].end()
    (row,) = recording.sql("select libraries from sessions")
    by_path = {library["path"]: library for library in json.loads(row["libraries"])}
    done.libraries = {name: by_path[str(path)] for name, path in paths.items()}
    return done


@pytest.fixture(scope="module")
def beginnings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_beginnings(tmp_path_factory.mktemp("beginnings") / "libcuda.so.1")


@pytest.fixture(scope="module")
def by_default(beginnings: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    paths = {"beginnings": beginnings, **real_drivers()}
    return record_all(tmp_path_factory.mktemp("sites") / "store", paths, "--probes", "emulated")


@pytest.fixture(scope="module")
def with_any(beginnings: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    paths = {"beginnings": beginnings, "450": real_drivers()["450"]}
    return record_all(tmp_path_factory.mktemp("sites") / "store", paths, "--probes", "any")


def expected(beginning: Beginning, symbol: str) -> list[dict[str, Any]]:
    unit = next((unit for text, unit in UNITS.items() if text in symbol), 1)
    return [{"bytes": n * unit, "result": beginning.answer(n)} for n in COUNTS]


def check_beginnings(done: Recorded, probed: Callable[[Beginning], bool]) -> None:
    answers = {SYMBOLS[name]: [one.answer(n) for n in COUNTS] for name, one in BEGINNINGS.items()}
    assert done.unprobed["beginnings"] == answers
    assert done.results["beginnings"] == answers
    for name, beginning in BEGINNINGS.items():
        symbol = SYMBOLS[name]
        rows = done.rows("beginnings", "bytes, result", f"api = '{symbol}'")
        assert rows == (expected(beginning, symbol) if probed(beginning) else []), name


def test_each_beginning_is_probed_exactly_or_refused_with_its_reason(
    by_default: Recorded,
) -> None:
    check_beginnings(by_default, lambda one: one.offset is not None)
    about = by_default.libraries["beginnings"]
    assert about["refused"] == {
        SYMBOLS[name]: one.refused for name, one in BEGINNINGS.items() if one.offset is None
    }
    assert about["stepped"] == 0


def test_what_may_be_single_stepped_is_exact_as_well(with_any: Recorded) -> None:
    check_beginnings(with_any, lambda one: (one.offset, one.stepped) != (None, None))
    about = with_any.libraries["beginnings"]
    stepped = sum(one.stepped is not None for one in BEGINNINGS.values())
    assert about["stepped"] == stepped
    said = with_any.recording.errors.read_text()
    assert f"{about['path']}: {stepped} functions are single-stepped: " in said


def check_driver(done: Recorded, name: str, probed: set[str]) -> None:
    """Seven calls, five, eleven: exactly these rows, with arguments and what the client got."""
    results = done.results[name]
    assert results == done.unprobed[name]
    assert all(result != 0 for answers in results.values() for result in answers)
    want = {
        "cuLaunchKernel": [
            {"grid_x": 3 + n, "grid_y": 5, "grid_z": 7, "block_x": 32, "block_y": 2, "block_z": 1,
             "shared_bytes": 11, "stream": 0x5000 + n} for n in range(7)
        ],
        "cuMemAlloc_v2": [{"bytes": 1009 + n} for n in range(5)],
        "cuMemcpyHtoD_v2": [{"bytes": 4001 + n, "direction": "HtoD"} for n in range(11)],
        "cuMemFree_v2": [{} for n in range(3)],
        "cuStreamSynchronize": [{"stream": 0x6000 + n} for n in range(13)],
        "cuMemsetD32_v2": [{"bytes": 4 * (101 + n)} for n in range(17)],
    }  # fmt: skip
    rows = done.rows(name, "*", f"(bytes is null or bytes < {10**6})")
    assert Counter(row["api"] for row in rows) == {
        api: len(calls) for api, calls in want.items() if api in probed
    }
    for api in probed & want.keys():
        mine = [row for row in rows if row["api"] == api]
        told = [
            {key: row[key] for key in (*call, "result")}
            for row, call in zip(mine, want[api], strict=True)
        ]
        assert told == [
            {**call, "result": result} for call, result in zip(want[api], results[api], strict=True)
        ]


CALLED = {
    "cuLaunchKernel", "cuMemAlloc_v2", "cuMemcpyHtoD_v2", "cuMemFree_v2", "cuStreamSynchronize",
    "cuMemsetD32_v2",
}  # fmt: skip


@pytest.mark.parametrize("name", MODERN)
def test_calls_of_a_real_driver_are_exactly_its_rows(name: str, by_default: Recorded) -> None:
    check_driver(by_default, name, CALLED)
    many = by_default.rows(name, "bytes", f"bytes >= {10**6}")
    assert [row["bytes"] for row in many] == list(range(10**6, 10**6 + MANY))
    losses = by_default.recording.sql("select sum(lost) as lost, sum(shed) as shed from losses")
    assert losses == [{"lost": 0, "shed": 0}]


def test_a_driver_that_is_seen_in_part_is_said_to_be(by_default: Recorded) -> None:
    """Of 450 the launches would be single-stepped."""
    about = by_default.libraries["450"]
    assert about["blind"]
    check_driver(by_default, "450", CALLED - about["refused"].keys())
    said = by_default.recording.errors.read_text().splitlines()
    mine = [line for line in said if about["path"] in line]
    assert "launches of this driver are not seen" in mine[0]
    assert len(mine) == 1 + len(set(about["refused"].values()))
    assert not any(by_default.libraries[name]["blind"] for name in MODERN)


def test_a_driver_that_has_to_be_single_stepped_is_exact_as_well(with_any: Recorded) -> None:
    check_driver(with_any, "450", CALLED)
    many = with_any.rows("450", "bytes", f"bytes >= {10**6}")
    assert [row["bytes"] for row in many] == list(range(10**6, 10**6 + MANY))


def planned(path: Path, stepping: Stepping) -> tuple[Plan, set[str]]:
    """The plan of a file, and what it exports of the tables at a place that has no probe."""
    with path.open("rb") as file, Elf(file.fileno()) as elf:
        found = plan(file.fileno(), FUNCTIONS, stepping)
        exported = elf.find(f.symbol for f in FUNCTIONS)
    assert found is not None
    starts = {site.start for site in found.sites.values()}
    return found, {symbol for symbol, start in exported.items() if start not in starts}


@pytest.mark.parametrize("name", MODERN)
def test_every_function_of_a_driver_has_an_emulated_probe(name: str) -> None:
    """As docs/how/attach.md has it: each at the same place."""
    found, unprobed = planned(real_drivers()[name], Stepping.NONE)
    assert unprobed == set()
    assert {(site.offset - site.start, site.length) for site in found.sites.values()} == {(10, 2)}
    assert found.refused == {}
    assert {site.kind for site in found.sites.values()} == {Kind.EMULATED}


def test_every_function_of_an_old_driver_has_a_probe_if_it_may_be_single_stepped() -> None:
    path = real_drivers()["450"]
    found, unprobed = planned(path, Stepping.ALL)
    assert unprobed == set()
    assert found.refused == {}
    found, unprobed = planned(path, Stepping.NONE)
    assert found.refused.keys() == unprobed
    assert {why.partition(":")[0] for why in found.refused.values()} == {"would be single-stepped"}
