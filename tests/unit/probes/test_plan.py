"""The probes of a file, against what binutils say of real ones."""

import re
import subprocess
from pathlib import Path

import pytest

from cotenant.probes.function import Flag, Library
from cotenant.probes.plan import Plan, plan
from cotenant.probes.sites import Kind, Stepping
from cotenant.probes.tables import FUNCTIONS
from tests.kernel.beginnings import RESERVE, build_assembly, build_beginnings
from tests.unit.probes.nvidia import package

MAKES_ROWS = Flag.OPERATION | Flag.ROW
FRAME = "push %rbp; mov %rsp,%rbp; pop %rbp; ret"


def planned(path: Path, stepping: Stepping = Stepping.NONE) -> Plan | None:
    with path.open("rb") as file:
        return plan(file.fileno(), FUNCTIONS, stepping)


def readelf(path: Path, *options: str) -> str:
    words = ["readelf", "--wide", *options, str(path)]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def file_offsets(path: Path) -> dict[str, int]:
    """Where each function begins in the file, by its symbols and program headers."""
    loads = re.findall(r"LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", readelf(path, "--program-headers"))
    parts = [(int(offset, 16), int(at, 16), int(size, 16)) for offset, at, size in loads]
    symbols = re.findall(
        r": (\w{16}) +\d+ I?FUNC +(?:GLOBAL|WEAK|LOCAL) +\S+ +\d+ (\w+)", readelf(path, "--syms")
    )
    return {
        name: int(address, 16) - at + offset
        for address, name in symbols
        for offset, at, size in parts
        if at <= int(address, 16) < at + size
    }


@pytest.mark.parametrize(
    ("pattern", "kinds"),
    [
        ("*/lib/libcudart.so.*", (Library.CUDART,)),
        # It has a runtime of its own, linked statically.
        ("nccl/lib/libnccl.so.2", (Library.CUDART, Library.NCCL)),
    ],
)
def test_a_real_library_is_probed_inside_the_functions_that_it_has(
    pattern: str, kinds: tuple[Library, ...]
) -> None:
    for path in package(pattern):
        found = planned(path)
        assert found is not None
        assert found.kinds == kinds
        build_id = re.search(r"Build ID: (\w+)", readelf(path, "--notes"))
        assert found.build_id == (build_id[1] if build_id else None)
        starts = file_offsets(path)
        placed = {p.function.symbol: p.start for p in found.placed}
        assert placed
        assert placed == {symbol: starts[symbol] for symbol in placed}
        wanted = {f.symbol for f in FUNCTIONS if f.library in kinds}
        probed = {starts[symbol] for symbol in (*placed, *found.refused)}
        # A name that is missing is another name for one that is there.
        assert {starts[symbol] for symbol in wanted & starts.keys()} == probed


@pytest.mark.parametrize("path", ["/bin/true", "/etc/passwd"])
def test_what_is_no_library_of_ours_has_no_plan(path: str) -> None:
    assert planned(Path(path)) is None


def test_of_two_names_for_one_function_the_first_of_the_table_stands(tmp_path: Path) -> None:
    frees = [f.symbol for f in FUNCTIONS if f.library is Library.CUDA and f.op == "free"]
    first, second = frees[:2]
    alias = f".globl {first}; .set {first},{second}; {FRAME}"
    path = build_assembly(tmp_path / "libcuda.so.1", {"cuLaunchKernel": FRAME, second: alias})
    found = planned(path)
    assert found is not None
    assert {p.function.symbol for p in found.placed} == {"cuLaunchKernel", first}


def test_a_driver_whose_launches_cannot_be_probed_is_blind(tmp_path: Path) -> None:
    seen = planned(build_assembly(tmp_path / "seen", {"cuLaunchKernel": FRAME}))
    blind = planned(build_assembly(tmp_path / "blind", {"cuLaunchKernel": "pop %r11; jmp *%r11"}))
    assert seen is not None
    assert blind is not None
    assert (seen.blind, blind.blind) == (False, True)
    assert seen.blind_without(["cuLaunchKernel"])
    assert not seen.blind_without(["cuMemFree_v2"])


def test_unasked_only_what_makes_rows_is_single_stepped(tmp_path: Path) -> None:
    names = ("cuInit", "cuGetProcAddress_v2", "cuMemAlloc_v2", "cuStreamQuery")
    library = build_beginnings(
        tmp_path / "libcuda.so.1", launch=RESERVE, more=dict.fromkeys(names, RESERVE)
    )
    found = planned(library, Stepping.ROWS)
    assert found is not None
    stepped = {s for s in found.sites if found.sites[s].kind is Kind.STEPPED}
    placed = {p.function.symbol: p.function for p in found.placed if p.offset in stepped}
    assert placed.keys() & {"cuLaunchKernel", *names} == {
        "cuLaunchKernel", "cuMemAlloc_v2", "cuInit",
    }  # fmt: skip
    assert all(function.flags & MAKES_ROWS for function in placed.values())
    assert found.refused["cuGetProcAddress_v2"] == "would be single-stepped: starts with sub"
    assert found.stepped == len(stepped)
