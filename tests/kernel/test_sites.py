"""Probes on functions that begin in every way, and on the drivers themselves: exact, or refused."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cotenant.probes.elf import Elf
from cotenant.probes.plan import Plan, plan
from cotenant.probes.sites import Kind, Stepping
from cotenant.probes.tables import FUNCTIONS
from cotenant.probes.ucx import EXPECTED, HOOKED
from tests.drivers import PACKAGES, real_driver, real_drivers
from tests.kernel.beginnings import (
    BEGINNINGS,
    CONDITIONS,
    FRAME,
    GUARDED,
    SYMBOLS,
    TAILS,
    Beginning,
    build_assembly,
    build_beginnings,
)
from tests.kernel.conftest import Cgroup, Recording, new_cgroup, record
from tests.kernel.script import Script

# What functions are called with. Counts: none, one, many, beyond a register's lower half.
COUNTS = (0, 1, 509, 70_001, 5_000_000_029)
PAIRS = ((5, 7), (7, 5), (5, 5), (1, 1 << 63), (1 << 63, 1), (3, 6), (0, 0))
ARGUMENTS = {
    "beginnings": [(SYMBOLS[name], [(5, count) for count in COUNTS]) for name in BEGINNINGS],
    "tails": [("cuMemAllocHost_v2", [(1009 + n, 7) for n in range(7)])],
    "conditions": [(symbol, PAIRS) for symbol in CONDITIONS],
    "guarded": [(symbol, [(5, count) for count in COUNTS]) for symbol in GUARDED],
}
TIMED = 999_983  # A count by which calls are known that were made to be timed.
UNTIMED = f"bytes not in ({TIMED}, {2 * TIMED}, {4 * TIMED})"
MANY = 20_000
STORMS = 2003
MODERN = [name for name in PACKAGES if name not in ("450", "460")]
# At which byte of a function its probe is, but for what UCX hooks; in all others at the tenth.
PLACES = {"460": 0, "580": 0}
UNITS = {"D16": 2, "D32": 4}

BEGIN = """
lib = ctypes.CDLL(PATH)
def calls():
    return {s: [getattr(lib, s)(c_uint64(7), c_uint64(a), c_uint64(b), None) for a, b in given]
            for s, given in ARGUMENTS}
def best_ns(function):
    best = 1 << 62
    for _ in range(7):
        began = time.perf_counter_ns()
        for _ in range(50):
            function(7, 5, TIMED, None)
        best = min(best, time.perf_counter_ns() - began)
    return best / 50
say(results=calls())
wait()
say(results=calls())
wait()
say(ns={s: best_ns(getattr(lib, s)) for s, _ in ARGUMENTS})
"""

# Threads and signals in the midst of single steps.
STORM = """
lib = ctypes.CDLL(PATH)
function = lib.STORED
signals = 0
def count(*_):
    global signals
    signals += 1
def storm():
    wrong.extend(n for n in range(STORMS) if function(c_uint64(7), c_uint64(5), n) != n & 511)
wrong = []
say(results=0)
wait()
signal.signal(signal.SIGALRM, count)
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
threads = [threading.Thread(target=storm) for _ in range(4)]
[thread.start() for thread in threads]
storm()
[thread.join() for thread in threads]
signal.setitimer(signal.ITIMER_REAL, 0)
say(results=wrong)
wait()
say(ns=0)
assert signals > 0
"""

DRIVER = """
lib = ctypes.CDLL(PATH)
at, size = c_uint64(), c_uint64
def calls():
    return {
        "cuLaunchKernel": [
            lib.cuLaunchKernel(None, 3 + n, 5, 7, 32, 2, 1, 11, c_void_p(n % 3), None, None)
            for n in range(7)],
        "cuMemAlloc_v2": [lib.cuMemAlloc_v2(byref(at), size(1009 + n)) for n in range(5)],
        "cuMemcpyHtoD_v2": [
            lib.cuMemcpyHtoD_v2(size(0x7000), None, size(4001 + n)) for n in range(11)],
        "cuMemFree_v2": [lib.cuMemFree_v2(size(0x7000 + n)) for n in range(3)],
        "cuStreamSynchronize": [lib.cuStreamSynchronize(c_void_p(n % 3)) for n in range(13)],
        "cuMemsetD32_v2": [lib.cuMemsetD32_v2(size(0x7000), 1, size(101 + n)) for n in range(17)],
    }
say(results=calls())
wait()
say(results=calls())
wait()
for n in range(MANY):
    lib.cuMemcpyHtoD_v2(size(0x7000), None, size(1_000_000 + n))
say(ns=0)
"""


@dataclass
class Recorded:
    """A client of each library, and what a recording of all of them holds."""

    recording: Recording
    pids: dict[str, int] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    unprobed: dict[str, Any] = field(default_factory=dict)
    ns: dict[str, Any] = field(default_factory=dict)
    libraries: dict[str, Any] = field(default_factory=dict)

    def rows(self, name: str, columns: str, where: str = "true") -> list[dict[str, Any]]:
        return self.recording.sql(
            f"select {columns} from cuda_events where pid = {self.pids[name]} and ({where}) "
            "order by timestamp_ns"
        )


def client(cgroup: Cgroup, path: Path, name: str) -> Script:
    text = BEGIN if name in ARGUMENTS else STORM if name == "storm" else DRIVER
    given = {
        "PATH": repr(str(path)),
        "ARGUMENTS": repr(ARGUMENTS.get(name)),
        "TIMED": str(TIMED),
        "MANY": str(MANY),
        "STORMS": str(STORMS),
        "STORED": SYMBOLS["store"],
    }
    for word, value in given.items():
        text = text.replace(word, value)
    return Script(cgroup, text)


def record_all(place: Path, paths: dict[str, Path], *options: str) -> Recorded:
    """Each client calls everything without a probe, and then again with."""
    with new_cgroup() as cgroup:
        clients = {name: client(cgroup, path, name) for name, path in paths.items()}
        unprobed = {name: script.heard()["results"] for name, script in clients.items()}
        with record(place, "--budget", "off", *options) as recording:
            done = Recorded(recording, unprobed=unprobed)
            recording.wait_probed(*paths.values())
            for name in paths:
                clients[name].go_on()
                done.results[name] = clients[name].heard()["results"]
                done.pids[name] = clients[name].pid
                clients[name].go_on()
                done.ns[name] = clients[name].heard()["ns"]
                clients[name].end()
    (row,) = recording.sql("select libraries from sessions")
    by_path = {library["path"]: library for library in json.loads(row["libraries"])}
    done.libraries = {name: by_path[str(path)] for name, path in paths.items()}
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("built")
    for name in ("beginnings", "tails", "conditions", "guarded"):
        (place / name).mkdir()
    launch = {"cuLaunchKernel": FRAME}
    return {
        "beginnings": build_beginnings(place / "beginnings" / "libcuda.so.1"),
        "tails": build_assembly(place / "tails" / "libcuda.so.1", launch | TAILS),
        "conditions": build_assembly(place / "conditions" / "libcuda.so.1", launch | CONDITIONS),
        "guarded": build_assembly(place / "guarded" / "libcuda.so.1", launch | GUARDED),
    }


@pytest.fixture(scope="module")
def emulated(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    paths = {**built, **real_drivers()}
    return record_all(tmp_path_factory.mktemp("sites") / "store", paths, "--probes", "emulated")


@pytest.fixture(scope="module")
def stepped(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    beginnings = built["beginnings"]
    old = {name: path for name, path in real_drivers().items() if name == "450"}
    paths = {"beginnings": beginnings, "storm": beginnings, "guarded": built["guarded"], **old}
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
        rows = done.rows("beginnings", "bytes, result", f"api = '{symbol}' and {UNTIMED}")
        assert rows == (expected(beginning, symbol) if probed(beginning) else []), name


def test_each_beginning_is_probed_exactly_or_refused_with_its_reason(
    emulated: Recorded,
) -> None:
    check_beginnings(emulated, lambda one: one.offset is not None)
    about = emulated.libraries["beginnings"]
    assert about["refused"] == {
        SYMBOLS[name]: one.refused for name, one in BEGINNINGS.items() if one.offset is None
    }
    assert about["stepped"] == 0


def test_what_may_be_single_stepped_is_exact_as_well(stepped: Recorded) -> None:
    check_beginnings(stepped, lambda one: (one.offset, one.stepped) != (None, None))
    about = stepped.libraries["beginnings"]
    count = sum(one.stepped is not None for one in BEGINNINGS.values())
    assert about["stepped"] == count
    said = stepped.recording.errors.read_text()
    assert f"{about['path']}: {count} functions are single-stepped: " in said
    (row,) = stepped.recording.sql("select notes from sessions")
    notes = json.loads(row["notes"])
    assert (notes["probes"], notes["stepped_call_cost_ns"] > 0) == ("any", True)


def test_threads_and_signals_do_no_harm_to_single_steps(stepped: Recorded) -> None:
    assert stepped.results["storm"] == []
    rows = stepped.rows("storm", "bytes", f"api = '{SYMBOLS['store']}'")
    assert sorted(row["bytes"] for row in rows) == sorted([*range(STORMS)] * 5)


def test_what_is_probed_is_what_this_kernel_emulates(emulated: Recorded) -> None:
    """Stepped ones would cost several times as much as the one that begins with a push."""
    ns = emulated.ns["beginnings"]
    probed = [SYMBOLS[name] for name, one in BEGINNINGS.items() if one.offset is not None]
    dear = {symbol: ns[symbol] for symbol in probed if ns[symbol] > 2 * ns[SYMBOLS["frame"]]}
    assert dear == {}


def test_a_probed_jump_goes_where_it_went_before(emulated: Recorded) -> None:
    results = emulated.results["conditions"]
    assert results == emulated.unprobed["conditions"]
    assert all(set(answers) == {1, 2} for answers in results.values())
    rows = emulated.rows("conditions", "api, result", f"bytes is null or {UNTIMED}")
    told = {symbol: [r["result"] for r in rows if r["api"] == symbol] for symbol in CONDITIONS}
    assert told == results


def test_a_function_that_looks_after_its_return_address_comes_to_no_harm(
    emulated: Recorded, stepped: Recorded
) -> None:
    answers = {symbol: [count & 511 for count in COUNTS] for symbol in GUARDED}
    for done in (emulated, stepped):
        assert done.results["guarded"] == done.unprobed["guarded"] == answers
        for symbol in GUARDED:
            told = done.rows("guarded", "result", f"api = '{symbol}' and {UNTIMED}")
            left = symbol in done.libraries["guarded"]["refused"]
            assert [row["result"] for row in told] == ([] if left else answers[symbol])
    assert emulated.libraries["guarded"]["refused"].keys() == GUARDED.keys()


def test_a_function_that_goes_on_as_another_is_one_row(emulated: Recorded) -> None:
    assert emulated.results["tails"] == emulated.unprobed["tails"]
    rows = emulated.rows("tails", "api, bytes, result", "bytes between 1009 and 1015")
    assert rows == [{"api": "cuMemHostAlloc", "bytes": 1009 + n, "result": 7} for n in range(7)]


def check_driver(done: Recorded, name: str, probed: set[str]) -> None:
    """Seven calls, five, eleven: exactly these rows, with arguments and what the client got."""
    real_driver(name)
    results = done.results[name]
    assert results == done.unprobed[name]
    assert all(result != 0 for answers in results.values() for result in answers)
    want = {
        "cuLaunchKernel": [
            {"grid_x": 3 + n, "grid_y": 5, "grid_z": 7, "block_x": 32, "block_y": 2, "block_z": 1,
             "shared_bytes": 11, "stream": n % 3} for n in range(7)
        ],
        "cuMemAlloc_v2": [{"bytes": 1009 + n} for n in range(5)],
        "cuMemcpyHtoD_v2": [{"bytes": 4001 + n, "direction": "HtoD"} for n in range(11)],
        "cuMemFree_v2": [{} for n in range(3)],
        "cuStreamSynchronize": [{"stream": n % 3} for n in range(13)],
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


@pytest.mark.parametrize("name", [*MODERN, "460"])
def test_calls_of_a_real_driver_are_exactly_its_rows(name: str, emulated: Recorded) -> None:
    check_driver(emulated, name, CALLED - HOOKED if name == "460" else CALLED)
    many = emulated.rows(name, "bytes", f"bytes >= {10**6}")
    assert [row["bytes"] for row in many] == list(range(10**6, 10**6 + MANY))
    losses = emulated.recording.sql("select sum(lost) as lost, sum(shed) as shed from losses")
    assert losses == [{"lost": 0, "shed": 0}]


def test_a_driver_that_is_seen_in_part_is_said_to_be(emulated: Recorded) -> None:
    """Of 450 the launches would be single-stepped."""
    real_driver("450")
    about = emulated.libraries["450"]
    assert about["blind"]
    check_driver(emulated, "450", CALLED - about["refused"].keys())
    said = emulated.recording.errors.read_text().splitlines()
    mine = [line for line in said if about["path"] in line]
    assert "launches of this driver are not seen" in mine[0]
    assert len(mine) == 1 + len(set(about["refused"].values()))
    assert not any(emulated.libraries[name]["blind"] for name in MODERN)


def test_a_driver_that_has_to_be_single_stepped_is_exact_as_well(stepped: Recorded) -> None:
    check_driver(stepped, "450", CALLED - HOOKED)
    many = stepped.rows("450", "bytes", f"bytes >= {10**6}")
    assert [row["bytes"] for row in many] == list(range(10**6, 10**6 + MANY))


def planned(path: Path, stepping: Stepping) -> tuple[Plan, set[str]]:
    """The plan of a file, and what it exports of the tables at a place that has no probe."""
    with path.open("rb") as file, Elf(file.fileno()) as elf:
        found = plan(file.fileno(), FUNCTIONS, stepping)
        exported = elf.find(f.symbol for f in FUNCTIONS)
    assert found is not None
    starts = {site.start for site in found.sites.values()}
    placed = {p.function.symbol for p in found.placed}
    unprobed = {symbol for symbol, start in exported.items() if start not in starts}
    return found, unprobed - placed


@pytest.mark.parametrize("name", [*MODERN, "460"])
def test_every_function_of_a_driver_has_an_emulated_probe(name: str) -> None:
    """As docs/how/attach.md has it: each at the same place, but for what UCX hooks."""
    found, unprobed = planned(real_driver(name), Stepping.NONE)
    left = HOOKED & unprobed
    assert len(left) == (10 if name == "460" else 0)
    assert unprobed == left
    assert found.refused == dict.fromkeys(left, EXPECTED)
    sites = {p.function.symbol: p.offset - (p.start or 0) for p in found.placed}
    assert {sites[symbol] for symbol in sites.keys() & HOOKED} <= {0}
    assert {sites[symbol] for symbol in sites.keys() - HOOKED} == {PLACES.get(name, 10)}
    assert {site.kind for site in found.sites.values()} == {Kind.EMULATED}


def test_every_function_of_an_old_driver_has_a_probe_if_it_may_be_single_stepped() -> None:
    path = real_driver("450")
    found, unprobed = planned(path, Stepping.ALL)
    assert unprobed == found.refused.keys()
    assert len(unprobed) == len(unprobed & HOOKED) == 7
    assert set(found.refused.values()) == {EXPECTED}
    found, unprobed = planned(path, Stepping.NONE)
    assert found.refused.keys() == unprobed
    reasons = {why.partition(":")[0] for why in found.refused.values()}
    assert reasons == {EXPECTED, "would be single-stepped"}
