"""The probes of a file, against what binutils say of real ones."""

import re
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cotenant.probes.elf import PLACES_MAX, BadElf
from cotenant.probes.function import Flag, Library
from cotenant.probes.plan import Plan, plan
from cotenant.probes.sites import Kind, Stepping
from cotenant.probes.tables import FUNCTIONS
from cotenant.probes.ucx import HOOKED
from tests.kernel.beginnings import RESERVE, build_assembly, build_beginnings, build_versions
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
    driver = [f for f in FUNCTIONS if f.library is Library.CUDA]
    frees = [f.symbol for f in driver if f.op == "free" and f.symbol not in HOOKED]
    first, second = frees[:2]
    alias = f".globl {first}; .set {first},{second}; {FRAME}"
    path = build_assembly(tmp_path / "libcuda.so.1", {"cuLaunchKernel": FRAME, second: alias})
    found = planned(path)
    assert found is not None
    assert {p.function.symbol for p in found.placed} == {"cuLaunchKernel", first}


def test_of_two_functions_with_one_site_neither_is_probed(tmp_path: Path) -> None:
    """Calls of the one would be rows of the other."""
    inner = ".globl cuMemsetD16_v2; .type cuMemsetD16_v2,@function; cuMemsetD16_v2: "
    both = f"xor %eax,%eax; {inner}{FRAME}; .size cuMemsetD16_v2,.-cuMemsetD16_v2"
    names = {"cuLaunchKernel": FRAME, "cuMemsetD8_v2": both, "cuMemsetD32_v2": FRAME}
    found = planned(build_assembly(tmp_path / "libcuda.so.1", names))
    assert found is not None
    why = "shares the place of its probe with another function"
    assert found.refused == {"cuMemsetD8_v2": why, "cuMemsetD16_v2": why}
    placed = {p.function.symbol: p.offset for p in found.placed}
    assert placed.keys() == {"cuLaunchKernel", "cuMemsetD32_v2"}
    assert set(found.sites) == set(placed.values())


def test_a_part_of_nccl_is_nccl(tmp_path: Path) -> None:
    """Who links it statically has only what is called."""
    names = {"ncclBroadcast": FRAME, "ncclSend": FRAME, "main": FRAME}
    found = planned(build_assembly(tmp_path / "program", names))
    assert found is not None
    assert (found.kinds, found.blind) == (("nccl",), False)
    assert {p.function.symbol for p in found.placed} == {"ncclBroadcast", "ncclSend"}


def test_a_driver_whose_launches_cannot_be_probed_is_blind(tmp_path: Path) -> None:
    seen = planned(build_assembly(tmp_path / "seen", {"cuLaunchKernel": FRAME}))
    blind = planned(build_assembly(tmp_path / "blind", {"cuLaunchKernel": "pop %r11; jmp *%r11"}))
    assert seen is not None
    assert blind is not None
    assert (seen.blind, blind.blind) == (False, True)
    assert seen.blind_without(["cuLaunchKernel"])
    assert not seen.blind_without(["cuMemFree_v2"])


def test_unasked_only_what_makes_rows_is_single_stepped(tmp_path: Path) -> None:
    names = ("cuInit", "cuGetProcAddress_v2", "cuMemHostAlloc", "cuStreamQuery")
    library = build_beginnings(
        tmp_path / "libcuda.so.1", launch=RESERVE, more=dict.fromkeys(names, RESERVE)
    )
    found = planned(library, Stepping.ROWS)
    assert found is not None
    stepped = {s for s in found.sites if found.sites[s].kind is Kind.STEPPED}
    placed = {p.function.symbol: p.function for p in found.placed if p.offset in stepped}
    assert placed.keys() & {"cuLaunchKernel", *names} == {
        "cuLaunchKernel", "cuMemHostAlloc", "cuInit",
    }  # fmt: skip
    assert all(function.flags & MAKES_ROWS for function in placed.values())
    assert found.refused["cuGetProcAddress_v2"] == "would be single-stepped: starts with sub"
    assert found.stepped == len(stepped)


def test_what_is_called_like_a_function_and_is_none_is_refused_for_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "libcuda.so.1"
    names = {
        "cuLaunchKernel": f".type cuLaunchKernel,@notype; {FRAME}",
        "cuMemcpy": ".type cuMemcpy,@gnu_indirect_function; lea result(%rip),%rax; ret",
        "cuMemsetD8_v2": FRAME,
        "other": f".data; .globl cuMemFree_v2; .type cuMemFree_v2,@object; "
        f"cuMemFree_v2: .quad 0; .text; {FRAME}",
    }
    found = planned(build_assembly(path, names))
    assert found is not None
    assert found.refused == {
        "cuLaunchKernel": "is no function by its symbol",
        "cuMemcpy": "is chosen when loaded",
    }
    assert found.blind
    assert {p.function.symbol for p in found.placed} == {"cuMemsetD8_v2"}


def test_a_program_that_keeps_functions_of_the_driver_in_variables_is_no_driver(
    tmp_path: Path,
) -> None:
    name = "cuLaunchKernel"
    variable = f".data; .globl {name}; .type {name},@object; {name}: .quad 0; .text; {FRAME}"
    assert planned(build_assembly(tmp_path / "program.so", {"other": variable})) is None


def test_each_version_of_a_function_is_probed(tmp_path: Path) -> None:
    found = planned(build_versions(tmp_path / "libcuda.so.1"))
    assert found is not None
    assert found.refused == {}
    sites = [p.offset - (p.start or 0) for p in found.placed if p.function.symbol == "cuMemcpy"]
    assert sorted(sites) == [0, 5]


def test_a_name_at_more_places_than_a_library_has_versions_is_refused(tmp_path: Path) -> None:
    many = {f"f{n}": f"{FRAME}; .symver f{n},cuMemcpy@V{n}" for n in range(PLACES_MAX + 2)}
    script = tmp_path / "script"
    script.write_text("".join(f"V{n} {{}};\n" for n in range(len(many))))
    options = f"-Wl,--version-script={script}"
    found = planned(build_assembly(tmp_path / "x", {"cuLaunchKernel": FRAME} | many, options))
    assert found is not None
    assert found.refused == {"cuMemcpy": f"is defined at more than {PLACES_MAX} places"}


def test_code_that_is_written_to_when_it_is_loaded_is_left_alone(tmp_path: Path) -> None:
    # The kernel would run what the file has: an address that is not yet one.
    names = {
        "cuLaunchKernel": FRAME,
        "cuMemcpy": f"movabs $slot,%rax; {FRAME}",
        "cuMemsetD8_v2": f"{FRAME}; .skip 8,0x90; movabs $slot,%rax",
    }
    for emitted in ([], ["-Wl,--emit-relocs"]):
        library = build_assembly(tmp_path / "x", names, "-Wl,-z,notext", *emitted)
        for stepping in (Stepping.NONE, Stepping.ALL):
            found = planned(library, stepping)
            assert found is not None
            assert found.refused == {"cuMemcpy": "is written to when loaded"}


@pytest.mark.parametrize("options", [[], ["-Wl,-z,pack-relative-relocs"]])
def test_code_that_is_written_to_by_a_packed_list_is_left_alone(
    options: list[str], tmp_path: Path
) -> None:
    # Only addresses of whole words can be packed.
    names = {
        "cuLaunchKernel": FRAME,
        "cuMemcpy": f".balign 16; .skip 6,0x90; 1: movabs $slot,%rax; {FRAME}",
        "cuMemsetD8_v2": f".balign 16; {FRAME}; .balign 16; .skip 24,0x90; 1: .quad slot,slot",
    }
    library = build_assembly(tmp_path / "x", names, "-Wl,-z,notext", *options)
    assert (".relr.dyn" in readelf(library, "--sections")) == bool(options)
    found = planned(library, Stepping.ALL)
    assert found is not None
    assert found.refused == {"cuMemcpy": "is written to when loaded"}


def test_code_that_is_loaded_as_writable_is_left_alone(tmp_path: Path) -> None:
    library = build_assembly(tmp_path / "x", {"cuLaunchKernel": FRAME})
    data = bytearray(library.read_bytes())
    (first,) = struct.unpack_from("<Q", data, 32)
    for at in range(first, first + 56 * struct.unpack_from("<H", data, 56)[0], 56):
        kind, flags = struct.unpack_from("<II", data, at)
        if kind == 1 and flags & 1:
            struct.pack_into("<I", data, at + 4, 7)
    library.write_bytes(data)
    found = planned(library)
    assert found is not None
    assert found.refused == {"cuLaunchKernel": "is loaded as writable code"}
    assert found.blind


def no_sections(data: bytearray) -> None:
    struct.pack_into("<Q", data, 40, 0)
    struct.pack_into("<HHH", data, 58, 0, 0, 0)


def many_sections(data: bytearray) -> None:
    struct.pack_into("<H", data, 60, 5000)


def sections_nowhere(data: bytearray) -> None:
    struct.pack_into("<Q", data, 40, 1 << 40)


def no_symbols(data: bytearray) -> None:
    """As if their section were of no known type."""
    (first,) = struct.unpack_from("<Q", data, 40)
    for at in range(first, len(data) - 63, 64):
        if struct.unpack_from("<I", data, at + 4)[0] in (2, 11):
            struct.pack_into("<I", data, at + 4, 1)


def narrow(data: bytearray) -> None:
    data[4] = 1


def foreign(data: bytearray) -> None:
    struct.pack_into("<H", data, 18, 183)


def cut(data: bytearray) -> None:
    del data[50:]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (no_sections, "has no section of symbols"),
        (many_sections, "absurd number of headers"),
        (sections_nowhere, "ends before offset"),
        (no_symbols, "has no section of symbols"),
        (narrow, "not a 64-bit"),
        (foreign, "built for machine 183"),
        (cut, "shorter than an ELF header"),
    ],
)
def test_a_file_that_is_not_read_whole_is_said_to_be(
    change: Callable[[bytearray], None], why: str, tmp_path: Path
) -> None:
    """It may be a library of ours: that there is none in it is not known."""
    library = build_assembly(tmp_path / "x", {"cuLaunchKernel": FRAME})
    data = bytearray(library.read_bytes())
    change(data)
    library.write_bytes(data)
    with pytest.raises(BadElf, match=why):
        planned(library)
