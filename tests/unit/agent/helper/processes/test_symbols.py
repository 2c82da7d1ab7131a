"""Names out of a process's files and memory, which change while it runs; here the process is us."""

import atexit
import ctypes
import mmap
import os
import subprocess
import tracemalloc
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cotenant.agent.helper.fair_queue import PassedOver
from cotenant.agent.helper.files.elf_files import ElfFiles, answer
from cotenant.agent.helper.files.readers import Readers
from cotenant.agent.helper.processes import process_memory, symbols
from cotenant.agent.helper.processes.inspector import Inspector
from cotenant.agent.helper.processes.symbols import Symbols
from cotenant.agent.process import Gone, Nameless, Process
from cotenant.agent.protocol.reports import NAME_MAX, Report, TextsRead
from cotenant.probes.elf import BadElf
from cotenant.schema.layouts import UNREAD
from tests.kernel.compiler import build_library, compile_c

VARIABLE = "_ZZ21__device_stub__Z3addvE8__handle"
HANDLE = 0x1234_5678_9ABC
READERS = Readers(answer)
FILES = ElfFiles(READERS)
atexit.register(READERS.close)


@pytest.fixture
def us(monkeypatch: pytest.MonkeyPatch) -> Process:
    """This process; its mapped files are opened by name, which takes no privilege."""

    @cache
    def path_of(start: int, end: int) -> str:
        for line in Path("/proc/self/maps").read_text().splitlines():
            if line.startswith((f"{start:x}-{end:x} ", f"{start:08x}-{end:08x} ")):
                return line.split(maxsplit=5)[5]
        raise FileNotFoundError

    def open_mapping(pid: int, start: int, end: int) -> int:
        return os.open(path_of(start, end), os.O_RDONLY)

    monkeypatch.setattr(symbols, "open_mapping", open_mapping)
    monkeypatch.setattr(process_memory, "open_mapping", open_mapping)
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return Process(os.getpid(), ticks * (1_000_000_000 // os.sysconf("SC_CLK_TCK")))


def address_of(mapped: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(mapped))


def test_text_is_found_in_what_was_mapped_after_the_first_question(
    us: Process, tmp_path: Path
) -> None:
    place = tmp_path / "strings"
    place.write_bytes(b"late\0" + bytes(4091))
    first = ctypes.create_string_buffer(b"early")
    looked = Symbols("calm", FILES)
    looked.next_question()
    assert [*looked.texts(us, [ctypes.addressof(first)])] == ["early"]
    with place.open("r+b") as file:
        there = mmap.mmap(file.fileno(), 4096)
    looked.next_question()
    assert [*looked.texts(us, [address_of(there), 8])] == ["late", None]


def test_for_one_question_a_process_is_looked_at_once(
    us: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    read_maps = symbols.read_maps
    monkeypatch.setattr(symbols, "read_maps", lambda pid: (read.append(pid), read_maps(pid))[1])
    looked = Symbols("calm", FILES)
    for _ in range(3):
        looked.next_question()
        for address in range(1, 8):
            assert [*looked.texts(us, [address])] == [None]
            assert looked.kernel(Nameless(us, address, 0))[1] is False
    assert read == [us.pid] * 6


def test_a_kernel_is_found_in_a_library_that_was_loaded_after_the_first_question(
    us: Process, tmp_path: Path
) -> None:
    place = build_library(tmp_path / "libkernels.so", ["late_kernel"])
    looked = Symbols("calm", FILES)
    looked.next_question()
    assert looked.kernel(Nameless(us, 7, 0))[1] is False
    library = ctypes.CDLL(str(place))
    stub = ctypes.cast(library.late_kernel, ctypes.c_void_p).value or 0
    looked.next_question()
    assert looked.kernel(Nameless(us, 0, stub)) == ("late_kernel", True)


def test_a_handle_is_found_that_its_stub_was_given_after_the_first_question(
    us: Process, tmp_path: Path
) -> None:
    source = tmp_path / "stub.c"
    source.write_text(
        f'long handle __asm__("{VARIABLE}");\nvoid set(long value) {{ handle = value; }}\n'
        "long get(void) { return handle; }\n"
    )
    library = ctypes.CDLL(str(compile_c(tmp_path / "stub.so", source, "-shared", "-fPIC")))
    library.set.argtypes = [ctypes.c_long]
    assert library.get() == 0
    looked = Symbols("calm", FILES)
    looked.next_question()
    assert looked.kernel(Nameless(us, HANDLE, 0))[1] is False
    library.set(HANDLE)
    assert looked.kernel(Nameless(us, HANDLE, 0))[1] is False
    looked.next_question()
    assert looked.kernel(Nameless(us, HANDLE, 0)) == ("_Z3addv", True)


def test_texts_side_by_side_and_across_what_is_read_at_once_are_each_found(
    us: Process, tmp_path: Path
) -> None:
    texts = [f"name_{n}_".ljust(n % 7919 + 9, "y") for n in range(211)] + ["z" * 70_000, "last"]
    place = tmp_path / "strings"
    place.write_bytes(b"\0".join(text.encode() for text in texts) + b"\0")
    with place.open("r+b") as file:
        there = mmap.mmap(file.fileno(), 0)
    starts = [0]
    for text in texts:
        starts.append(starts[-1] + len(text) + 1)
    looked = Symbols("calm", FILES)
    found = looked.texts(us, [address_of(there) + start for start in starts[:-1]])
    assert [*found] == [text[:65536] for text in texts]


@pytest.mark.parametrize("kind", ["side by side", "all the same", "in memory"])
def test_long_texts_without_end_take_the_memory_of_a_few(
    kind: str, us: Process, tmp_path: Path
) -> None:
    long = ("\N{SNAKE}" + "x" * (1 << 17)).encode()
    place = tmp_path / "strings"
    place.write_bytes(long)
    with place.open("r+b") as file:
        there = mmap.mmap(file.fileno(), 0)
    held = ctypes.create_string_buffer(long)
    start = ctypes.addressof(held) if kind == "in memory" else address_of(there)
    asked = np.zeros(1009, UNREAD)
    asked["handle"] = range(1009)
    asked["address"] = start + 4 * (asked["handle"] if kind == "side by side" else 0)
    told: list[tuple[int, int]] = []

    def tell(report: Report) -> None:
        assert isinstance(report, TextsRead)
        told.extend((one.handle, len(one.text)) for one in report.texts)

    inspector = Inspector(tell, PassedOver(), (us,), FILES)
    inspector.ask_texts("storm", us, asked)
    tracemalloc.start()
    try:
        inspector._handle("storm", us)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert told == [(handle, NAME_MAX) for handle in range(1009)]
    assert peak < 200 * len(long)


class Reused:
    """Says who a process is until its number is another's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, checks: int) -> None:
        self.left = checks
        monkeypatch.setattr(symbols, "check", self._check)

    def _check(self, process: Process) -> None:
        self.left -= 1
        if self.left < 0:
            raise Gone(f"process {process.pid} is another one now")


def test_nothing_is_told_of_who_has_the_number_of_a_process_that_ended(
    us: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = ctypes.create_string_buffer(b"of another")
    addresses = [ctypes.addressof(text)] * 211
    looked = Symbols("calm", FILES)
    looked.next_question()
    assert [*looked.texts(us, addresses)] == ["of another"] * 211
    Reused(monkeypatch, checks=0)
    assert [*looked.texts(us, addresses)] == [None] * 211
    # It ends while it is looked into.
    Reused(monkeypatch, checks=1)
    assert [*Symbols("calm", FILES).texts(us, addresses[:1])] == [None]


def test_no_kernel_is_named_by_who_has_the_number_of_a_process_that_ended(
    us: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = ctypes.CDLL(str(build_library(tmp_path / "libkernels.so", ["kernel_of_another"])))
    stub = ctypes.cast(library.kernel_of_another, ctypes.c_void_p).value or 0
    nameless = Nameless(us, 0, stub)
    looked = Symbols("calm", FILES)
    looked.next_question()
    assert looked.kernel(nameless) == ("kernel_of_another", True)
    Reused(monkeypatch, checks=1)
    assert looked.kernel(nameless) == (symbols.unknown_name(nameless), False)


HANDLES = 30_000
STRINGS_BYTES = 73_700_000


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library as libtorch_cuda.so is: kernels by the ten thousand, names of kilobytes."""
    place = tmp_path_factory.mktemp("big")
    filler = "x" * (STRINGS_BYTES // HANDLES - 60)
    lines = ["\t.bss"]
    for number in range(HANDLES):
        kernel = f"_Z{len(filler) + 6}k{number:05}{filler}v"
        stub = f"__device_stub_{kernel}"
        name = f"_ZZ{len(stub)}{stub}E8__handle"
        lines.append(f"\t.local {name}\n\t.comm {name},8,8")
    lines.append('\t.globl first\n\t.comm first,8,8\n\t.section .note.GNU-stack,"",@progbits')
    (place / "big.s").write_text("\n".join(lines) + "\n")
    library = place / "libbig.so"
    subprocess.run(["gcc", "-shared", "-o", library, place / "big.s"], check=True)
    return library


def test_every_name_of_a_library_of_73_megabytes_of_names_is_found(us: Process, big: Path) -> None:
    loaded = ctypes.CDLL(str(big))
    base = next(
        int(line.split("-")[0], 16)
        for line in Path("/proc/self/maps").read_text().splitlines()
        if line.endswith(str(big))
    )
    done = subprocess.run(["nm", big], capture_output=True, text=True, check=True)
    symbols = {w[2]: int(w[0], 16) for w in map(str.split, done.stdout.splitlines()) if len(w) == 3}
    stubs = {name: at for name, at in symbols.items() if name.endswith("8__handle")}
    assert len(stubs) == HANDLES
    assert sum(map(len, symbols)) > 73_000_000
    wanted = {}
    for number, (name, at) in enumerate(stubs.items()):
        ctypes.c_uint64.from_address(base + at).value = HANDLE + number
        wanted[HANDLE + number] = name.partition("__device_stub_")[2].removesuffix("E8__handle")
    looked = Symbols("calm", FILES)
    looked.next_question()
    found = {handle: looked.kernel(Nameless(us, handle, 0)) for handle in wanted}
    assert found == {handle: (name, True) for handle, name in wanted.items()}
    assert loaded.first is not None


def test_a_big_file_that_takes_too_much_is_given_up_and_not_read_again(
    us: Process, big: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children: list[int] = []

    def too_much(_: ElfFiles, tenant: str, fd: int, ending: str) -> Any:
        children.append(os.fstat(fd).st_ino)
        raise BadElf("takes too long")

    monkeypatch.setattr(ElfFiles, "variables", too_much)
    loaded = ctypes.CDLL(str(big))
    looked = Symbols("calm", FILES)
    for _ in range(3):
        looked.next_question()
        assert looked.kernel(Nameless(us, 0x7777, 0))[1] is False
    assert children.count(big.stat().st_ino) == 1
    assert loaded is not None
