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


@pytest.mark.parametrize(("place", "sites"), [("framed", {(0, 1)}), ("", {(0, 1), (10, 2)})])
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


def listing(path: Path) -> dict[int, str]:
    """Instructions of a file by address, as another disassembler sees them."""
    done = subprocess.run(
        ["objdump", "--disassemble", "--no-show-raw-insn", "--wide", path],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = re.findall(r"^ +([0-9a-f]+):\s+(\S+)", done.stdout, re.MULTILINE)
    return {int(address, 16): mnemonic for address, mnemonic in found}


@pytest.mark.parametrize(
    "stand_in", ["libnccl.so.2", "libcudart.so.12", "framed/libcuda.so.1", "libcuda.so.1", ""]
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
