"""Where a probe may sit in a function, decided from its bytes."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cotenant.probes.elf import Elf, Extent
from cotenant.probes.function import Library
from cotenant.probes.plan import plan
from cotenant.probes.sites import Kind, Site, Stepping, choose_site
from cotenant.probes.tables import FUNCTIONS
from tests.kernel.beginnings import BEGINNINGS, SYMBOLS, build_assembly, build_beginnings

SIM = Path(__file__).parents[3] / "sim" / "build"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_beginnings(tmp_path_factory.mktemp("sites") / "libcuda.so.1")


def chosen(library: Path, name: str, **options: int) -> Site:
    with library.open("rb") as file, Elf(file.fileno()) as elf:
        extent = elf.extents([SYMBOLS[name]])[SYMBOLS[name]]
        site = choose_site(elf, extent, **options)
        assert site.start == extent.offset
        return site


@pytest.mark.parametrize("name", BEGINNINGS)
def test_a_site_is_emulated_or_refused_for_a_reason(library: Path, name: str) -> None:
    expected = BEGINNINGS[name]
    site = chosen(library, name)
    if expected.offset is None:
        assert site.refused == expected.refused
    else:
        assert site.refused is None
        assert (site.offset - site.start, site.kind) == (expected.offset, Kind.EMULATED)


@pytest.mark.parametrize("name", BEGINNINGS)
def test_a_site_is_single_stepped_only_where_none_is_emulated(library: Path, name: str) -> None:
    expected = BEGINNINGS[name]
    site = chosen(library, name, stepped=True)
    if expected.offset is not None:
        assert (site.offset - site.start, site.kind) == (expected.offset, Kind.EMULATED)
    elif expected.stepped is not None:
        assert site.refused is None
        assert (site.offset - site.start, site.kind) == (expected.stepped, Kind.STEPPED)
    else:
        assert site.refused == expected.refused


def test_a_site_knows_its_instruction(library: Path) -> None:
    assert chosen(library, "frame").length == 1
    assert chosen(library, "table").length == 2
    assert chosen(library, "store", stepped=True).length == 5


@pytest.mark.parametrize(("beyond", "offset"), [(5, 9), (9, 9), (10, None), (13, None)])
def test_a_site_keeps_clear_of_the_beginning_if_asked(
    library: Path, beyond: int, offset: int | None
) -> None:
    site = chosen(library, "endbr64, constant", beyond=beyond)
    assert (site.offset - site.start if site.refused is None else None) == offset


def test_a_function_whose_end_is_unknown_is_probed_at_its_start_or_not_at_all(
    library: Path,
) -> None:
    with library.open("rb") as file, Elf(file.fileno()) as elf:
        places = elf.extents(SYMBOLS.values())
        start = choose_site(elf, Extent(places[SYMBOLS["frame"]].offset, 0))
        behind = choose_site(elf, Extent(places[SYMBOLS["table"]].offset, 0))
        long = choose_site(elf, Extent(places[SYMBOLS["table"]].offset, 1 << 17))
    assert start.refused is None
    assert behind.refused == "has no known end"
    assert long.refused == "is too long to be looked through"


BACK = "jumps back to where its probe would be"
BY_TABLE = "jumps by a table, perhaps to where its probe would be"
TABLE_JUMP = "lea 2f(%rip),%r11; jmp *%r11; 2: ret"


def site_of(place: Path, code: str, size: int | None = None, **options: int) -> int | str | None:
    """Where in such a function a probe goes, or why nowhere."""
    path = build_assembly(place / "libcuda.so.1", {"cuMemcpy": code})
    with path.open("rb") as file, Elf(file.fileno()) as elf:
        extent = elf.extents(["cuMemcpy"])["cuMemcpy"]
        extent = extent if size is None else Extent(extent.offset, size)
        site = choose_site(elf, extent, **options)
    return site.refused or site.offset - site.start


@pytest.mark.parametrize(
    ("code", "emulated", "stepped"),
    [
        # while (!count);
        ("1: mov count(%rip),%eax; test %eax,%eax; je 1b; ret", BACK, BACK),
        ("1: mov count(%rip),%eax; test %eax,%eax; je 2f; call 1b; 2: ret", 8, 8),
        ("mov $1,%eax; push %rbx; call 1f; 1: pop %rbx; ret", 5, 5),
        ("1: mov %rdi,%rsi; dec %edx; jnz 1b; ret", "would be single-stepped: starts with mov",
         BACK),
        ("1: mov %rdi,%rsi; 2: dec %edx; jnz 2b; call 1b; ret",
         "would be single-stepped: starts with mov", 0),
        (f"mov %rdi,%rsi; {TABLE_JUMP}", "would be single-stepped: starts with mov", 0),
        ("1: push %rbx; pop %rbx; dec %edx; jnz 1b; ret", 0, 0),
    ],
)  # fmt: skip
def test_who_jumps_to_the_start_of_a_function_does_not_call_it(
    code: str, emulated: int | str, stepped: int | str, tmp_path: Path
) -> None:
    assert site_of(tmp_path, code) == emulated
    assert site_of(tmp_path, code, stepped=True) == stepped


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (f"endbr64; push %rbx; pop %rbx; {TABLE_JUMP}", 4),
        (f"endbr64; push %r12; pop %r12; {TABLE_JUMP}", 4),
        ("endbr64; 1: push %rbx; pop %rbx; dec %edx; jnz 1b; ret", BACK),
        ("1: endbr64; push %rbx; pop %rbx; dec %edx; jnz 1b; ret", BACK),
        (f"endbr64; nop; {TABLE_JUMP}", BY_TABLE),
        (f"endbr64; endbr64; push %rbx; pop %rbx; {TABLE_JUMP}", BY_TABLE),
        (f"endbr64; xor %eax,%eax; push %rbx; pop %rbx; {TABLE_JUMP}", BY_TABLE),
        (f"xor %eax,%eax; push %rbx; pop %rbx; {TABLE_JUMP}", BY_TABLE),
    ],
)
def test_no_table_leads_to_the_push_that_a_function_begins_with(
    code: str, expected: int | str, tmp_path: Path
) -> None:
    assert site_of(tmp_path, code) == expected


@pytest.mark.parametrize("size", [0, (1 << 14) + 1])
def test_a_push_behind_a_mark_alone_is_probed_however_long_the_function(
    size: int, tmp_path: Path
) -> None:
    rest = "pop %rbx; ret; .skip 20000,0x90"
    assert site_of(tmp_path, f"endbr64; push %rbx; {rest}", size) == 4
    refused = site_of(tmp_path, f"endbr64; xor %eax,%eax; push %rbx; {rest}", size)
    assert refused == ("is too long to be looked through" if size else "has no known end")


@pytest.mark.parametrize(
    ("place", "sites"),
    [("framed", {(0, 1)}), ("checked", {(0, 1), (10, 2)}), ("", {(0, 1), (10, 2)})],
)
def test_the_stand_in_drivers_begin_as_the_real_ones(place: str, sites: Any) -> None:
    path = SIM / place / "libcuda.so.1"
    with path.open("rb") as file:
        found = plan(file.fileno(), FUNCTIONS)
    assert found is not None
    assert found.refused == {}
    assert {(s.offset - s.start, s.length) for s in found.sites.values()} == sites


def test_a_file_is_looked_through_only_so_far(tmp_path: Path) -> None:
    """However many long functions a tenant writes."""
    code = "xor %eax,%eax; push %rbx; pop %rbx; .skip 15000,0x90; ret"
    names = [f.symbol for f in FUNCTIONS if f.library is Library.CUDA][:101]
    path = build_assembly(tmp_path / "libcuda.so.1", dict.fromkeys(names, code))
    with path.open("rb") as file:
        found = plan(file.fileno(), FUNCTIONS)
    assert found is not None
    assert len(found.placed) == (1 << 20) // 15005
    assert set(found.refused.values()) == {"is too long to be looked through"}


def test_what_is_not_looked_through_leaves_room_for_others(tmp_path: Path) -> None:
    long = "endbr64; push %rbx; pop %rbx; .skip 20000,0x90; ret"
    short = "xor %eax,%eax; push %rbx; pop %rbx; ret"
    names = [f.symbol for f in FUNCTIONS if f.library is Library.CUDA][:101]
    code = dict.fromkeys(names, long) | {names[-1]: short}
    path = build_assembly(tmp_path / "libcuda.so.1", code)
    with path.open("rb") as file:
        found = plan(file.fileno(), FUNCTIONS)
    assert found is not None
    assert (len(found.placed), found.refused) == (101, {})


def listing(path: Path) -> dict[int, str]:
    """Instructions of a file by address, as another disassembler sees them."""
    done = subprocess.run(
        ["objdump", "--disassemble", "--no-show-raw-insn", "--wide", path],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = re.findall(r"^ +([0-9a-f]+):\s+(\S+)", done.stdout, re.MULTILINE)
    return {int(address, 16): mnemonic for address, mnemonic in found}


@pytest.mark.parametrize(
    "stand_in",
    ["libnccl.so.2", "libcudart.so.12", "framed/libcuda.so.1", "libcuda.so.1", ""],
)
def test_a_site_is_never_inside_an_instruction(library: Path, stand_in: str) -> None:
    path = SIM / stand_in if stand_in else library
    seen = listing(path)
    with path.open("rb") as file, Elf(file.fileno()) as elf:
        found = plan(file.fileno(), FUNCTIONS, Stepping.ALL)
        assert found is not None
        assert len(found.placed) > 20
        for site in found.sites.values():
            address = elf.address_of(site.offset)
            assert address is not None
            emulated = re.fullmatch(r"push|nop|j[a-z]+", seen[address])
            assert bool(emulated) == (site.kind is Kind.EMULATED)
