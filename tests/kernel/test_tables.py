"""Every row of the CUDA probe tables: called a prime number of times, found with its arguments."""

import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, cycle
from math import prod
from typing import Any

import pytest

from cotenant.probes.function import Library
from cotenant.probes.tables import FUNCTIONS
from tests.kernel.compiler import build_client, build_library
from tests.kernel.conftest import Cgroup, Recording, new_cgroup, record
from tests.kernel.prototypes import PROTOTYPES, Prototype

PRIMES = (3, 5, 7, 11, 13)
NOT_READY = 600
ROWS = [f for f in FUNCTIONS if f.library is not Library.NCCL]
NOT_A_ROW = ("query", "quiet", "fact", "device", "pointer")
COLUMNS = (
    "op", "bytes", "stream", "direction", "result", "grid_x", "grid_y", "grid_z", "block_x",
    "block_y", "block_z", "shared_bytes",
)  # fmt: skip


@dataclass
class Call:
    """One line for the client, and the row that it must make."""

    symbol: str
    times: int
    result: int = 0
    words: list[str] = field(default_factory=list)
    row: dict[str, Any] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)

    @property
    def line(self) -> str:
        return " ".join([self.symbol, str(self.times), str(self.result), *self.words])


def test_every_row_of_the_tables_has_a_prototype() -> None:
    assert {f.symbol for f in ROWS} == set(PROTOTYPES)


def numbers(unique: Iterator[int]) -> dict[str, int]:
    """Seven small numbers that no other call has."""
    base = next(unique)
    names = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared_bytes")
    return {name: base * 8 + index for index, name in enumerate(names)}


def pointer(data: bytes) -> str:
    return "@" + data.hex()


def config(shape: dict[str, int], stream: int) -> bytes:
    """CUlaunchConfig, cudaLaunchConfig_t."""
    return struct.pack("<7IxxxxQQQ", *shape.values(), stream, 0, 0)


def flat_copy(width: int, height: int) -> bytes:
    """CUDA_MEMCPY2D from host to device."""
    data = bytearray(128)
    struct.pack_into("<I", data, 16, 1)
    struct.pack_into("<I", data, 72, 2)
    struct.pack_into("<QQ", data, 112, width, height)
    return bytes(data)


def deep_copy(width: int, height: int) -> bytes:
    """CUDA_MEMCPY3D from an array to the host, three layers."""
    data = bytearray(200)
    struct.pack_into("<I", data, 32, 3)
    struct.pack_into("<I", data, 120, 1)
    struct.pack_into("<QQQ", data, 176, width, height, 3)
    return bytes(data)


def runtime_copy(offset: int, width: int, height: int) -> bytes:
    """cudaMemcpy3DParms, cudaMemcpy3DPeerParms: the extent, then the kind."""
    return bytes(offset) + struct.pack("<QQQI", width, height, 3, 1) + bytes(4)


def add_argument(call: Call, name: str, unique: Iterator[int]) -> None:
    """The word for one argument, and what the row must say of it."""
    number = next(unique)
    name, _, size = name.partition("*")
    shape = {key: value for key, value in call.row.items() if key in COLUMNS[5:]}
    width, height = number % 1000 + 1, number % 7 + 2
    if name == "stream":
        call.row["stream"] = 0x5000_0000 + number
        call.words.append(str(call.row["stream"]))
    elif name == "bytes":
        call.words.append(str(width))
        call.sizes.append(width * int(size or 1))
    elif name == "kind":
        call.row["direction"] = "DtoH"
        # The upper half of an int's register is anybody's.
        call.words.append(str(0xDEAD_0000_0002 & ~0xFFFF_FFFF | 2))
    elif name == "pitch":
        call.words.append(pointer(struct.pack("<Q", 512)))
        call.sizes.append(512)
    elif name == "sizes":
        call.words.append(pointer(struct.pack("<QQQ", width, 200, 300)))
        call.sizes.append(width + 500)
    elif name == "three":
        call.words.append("3")
    elif name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"):
        call.words.append(str(call.row[name]))
    elif name == "shared":
        call.words.append(str(call.row["shared_bytes"]))
    elif name in ("grid_xy", "block_xy"):
        stem = name.removesuffix("xy")
        call.words.append(str(call.row[stem + "x"] | call.row[stem + "y"] << 32))
    elif name == "config":
        call.row["stream"] = 0x6000_0000 + number
        call.words.append(pointer(config(shape, call.row["stream"])))
    elif name == "launches":
        call.row["stream"] = 0x6100_0000 + number
        call.words.append(pointer(struct.pack("<Q7IxxxxQQ", 77, *([1] * 7), call.row["stream"], 0)))
    elif name == "stubs":
        call.row["stream"] = 0x6200_0000 + number
        call.words.append(pointer(struct.pack("<Q6IQQQ", 77, *([1] * 6), 0, 0, call.row["stream"])))
    elif name in ("copy2d", "copy3d"):
        data = flat_copy(width, height) if name == "copy2d" else deep_copy(width, height)
        call.words.append(pointer(data))
        call.sizes += [width, height, *([3] if name == "copy3d" else [])]
    elif name in ("runtime3d", "peer3d"):
        call.words.append(pointer(runtime_copy(128 if name == "runtime3d" else 144, width, height)))
        call.sizes += [width, height, 3]
    elif name == "out":
        call.words.append(pointer(struct.pack("<Q", 0x7F00_0000_0000 + number)))
    elif name == "node":
        call.words.append(pointer(bytes(96)))
    else:
        call.words.append(str(0x7E00_0000_0000 + number))


def build_call(symbol: str, prototype: Prototype, times: int, unique: Iterator[int]) -> Call:
    call = Call(symbol, times, row=dict.fromkeys(COLUMNS))
    arguments = prototype.arguments
    if any(name in ("grid_x", "grid_xy", "config") for name in arguments):
        call.row |= numbers(unique)
    for name in arguments:
        add_argument(call, name, unique)
    if not {"out", "pitch", "node"} & set(arguments) and prototype.op not in ("graph", "context"):
        call.result = 700 + next(unique) % 200
    if call.sizes:
        call.row["bytes"] = prod(call.sizes)
    call.row |= {"op": prototype.op, "result": call.result}
    if prototype.direction:
        call.row["direction"] = prototype.direction
    return call


def build_calls() -> list[Call]:
    unique, times = count(1009), cycle(PRIMES)
    return [
        build_call(symbol, prototype, next(times), unique)
        for symbol, prototype in PROTOTYPES.items()
        if prototype.op not in NOT_A_ROW
    ]


def query_lines(symbol: str) -> list[str]:
    """Twice not ready and then ready, five times over; and the default stream, always ready."""
    asked = 0x4000_0000 + sum(symbol.encode())
    return [f"{symbol} 2 {NOT_READY} {asked}", f"{symbol} 1 0 {asked}", f"{symbol} 3 0 0"] * 5


@dataclass(frozen=True)
class Fact:
    """A call that names a handle, and the launch that must then carry the name."""

    symbol: str
    handle: int
    name: str
    lines: tuple[str, ...]


def build_facts() -> list[Fact]:
    facts = []
    for index, (symbol, prototype) in enumerate(PROTOTYPES.items()):
        if prototype.op != "fact":
            continue
        handle, name = 0x3000_0000 + 16 * index, f"kernel_of_{symbol}"
        text = name.encode() + b"\0"
        words = {
            "handle": str(handle),
            "handle_out": pointer(struct.pack("<Q", handle)),
            "name": pointer(text),
            "name_out": "*" + pointer(text),
            "named": str(handle + 8),
            "-": "0",
        }
        before = []
        if "named" in prototype.arguments:
            found = pointer(struct.pack("<Q", handle + 8))
            before = [f"cuModuleGetFunction 1 0 {found} 0 {words['name']}"]
        line = " ".join([symbol, "1", "0", *(words[a] for a in prototype.arguments)])
        launch = f"cuLaunchKernel 7 0 {handle} 1 1 1 1 1 1 0 {handle}"
        facts.append(Fact(symbol, handle, name, (*before, line, launch)))
    return facts


@dataclass(frozen=True)
class Outcome:
    """What was called, and what was recorded of it."""

    calls: list[Call]
    facts: list[Fact]
    rows: list[dict[str, Any]]
    totals: dict[str, int]
    counters: str


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    """Everything called once, with each beginning of a driver, in one recording."""
    place = tmp_path_factory.mktemp("tables")
    client = build_client(place / "caller", "caller")
    driver = [s for s in PROTOTYPES if not is_runtime(s)]
    runtime = [s for s in PROTOTYPES if is_runtime(s)]
    drivers = [
        build_library(place / "framed" / "libcuda.so.1", driver),
        build_library(place / "tabled" / "libcuda.so.1", driver, "-DTABLED"),
        build_library(place / "checked" / "libcuda.so.1", driver, "-DCHECKED"),
    ]
    library = build_library(place / "libcudart.so.13", runtime)
    calls, facts = build_calls(), build_facts()
    lines = [line for fact in facts for line in fact.lines]
    lines += [c.line for c in calls]
    lines += [x for s, p in PROTOTYPES.items() if p.op == "query" for x in query_lines(s)]
    lines += [f"{s} 3 0 {0x7D0000000000}" for s, p in PROTOTYPES.items() if p.op == "quiet"]
    options = ("--layers", "both", "--calls", "all")
    with new_cgroup() as first, new_cgroup() as second, new_cgroup() as third:
        groups = first, second, third
        with record(place / "store", *options) as recording:
            pids = [
                converse(cgroup, [client, driver, library], lines, recording)
                for cgroup, driver in zip(groups, drivers, strict=True)
            ]
    return [
        read_outcome(recording, calls, facts, pid, cgroup.name)
        for pid, cgroup in zip(pids, groups, strict=True)
    ]


def read_outcome(
    recording: Recording, calls: list[Call], facts: list[Fact], pid: int, cgroup: str
) -> Outcome:
    rows = recording.sql(f"select * from cuda_events where pid = {pid} order by timestamp_ns")
    totals = recording.sql(
        "select function, sum(count) as calls from totals t join containers c using (cgroup_id) "
        f"where c.cgroup_path = '/{cgroup}' group by 1"
    )
    notes = recording.sql("select notes from sessions")[0]["notes"]
    return Outcome(calls, facts, rows, {t["function"]: t["calls"] for t in totals}, notes)


def is_runtime(symbol: str) -> bool:
    return symbol.startswith(("cuda", "__cuda"))


def converse(cgroup: Cgroup, command: list[Any], lines: list[str], recording: Any) -> int:
    """Wait until the client's libraries are probed, then have it call; its process id."""
    process = cgroup.popen(command, stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    pid = int(process.stdout.readline().split()[1])
    recording.wait_probed(*command[1:])
    logged, _ = process.communicate("\n".join(lines) + "\n", timeout=60)
    assert process.returncode == 0
    assert logged.splitlines() == [f"{pid} {line}" for line in lines]
    return pid


@pytest.mark.parametrize("symbol", [s for s, p in PROTOTYPES.items() if p.op not in NOT_A_ROW])
def test_each_call_is_one_row_with_its_arguments(symbol: str, outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        call = next(c for c in outcome.calls if c.symbol == symbol)
        named = {fact.handle for fact in outcome.facts}
        rows = [r for r in outcome.rows if r["api"] == symbol and r["stream"] not in named]
        assert [{name: row[name] for name in COLUMNS} for row in rows] == [call.row] * call.times


@pytest.mark.parametrize("symbol", [s for s, p in PROTOTYPES.items() if p.op == "query"])
def test_a_query_is_a_row_only_when_not_ready_turns_ready(
    symbol: str, outcomes: list[Outcome]
) -> None:
    for outcome in outcomes:
        assert [r["result"] for r in outcome.rows if r["api"] == symbol] == [0] * 5
        assert outcome.totals[symbol] == 30


@pytest.mark.parametrize("symbol", [s for s, p in PROTOTYPES.items() if p.op == "quiet"])
def test_what_is_followed_without_a_row_is_counted(symbol: str, outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        assert [r for r in outcome.rows if r["api"] == symbol] == []
        assert outcome.totals[symbol] == 3


@pytest.mark.parametrize("fact", build_facts(), ids=lambda fact: fact.symbol)
def test_each_way_to_learn_a_name_names_the_launch(fact: Fact, outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        rows = [r for r in outcome.rows if r["stream"] == fact.handle]
        assert [r["kernel_name"] for r in rows] == [fact.name] * 7
