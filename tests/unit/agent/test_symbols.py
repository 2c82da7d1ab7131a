"""Names out of a process's files and memory, which change while it runs; here the process is us."""

import ctypes
import mmap
import os
from pathlib import Path

import pytest

from cotenant.agent import symbols
from cotenant.agent.kernel_names import Nameless
from cotenant.agent.process import Process
from cotenant.agent.symbols import Symbols
from tests.kernel.every import build_library, compile_c

VARIABLE = "_ZZ21__device_stub__Z3addvE8__handle"
HANDLE = 0x1234_5678_9ABC


@pytest.fixture
def us(monkeypatch: pytest.MonkeyPatch) -> Process:
    """This process; its mapped files are opened by name, which takes no privilege."""

    def open_mapping(pid: int, start: int, end: int) -> int:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if line.startswith(f"{start:x}-{end:x} ") or line.startswith(f"{start:08x}-{end:08x} "):
                return os.open(line.split(maxsplit=5)[5], os.O_RDONLY)
        raise FileNotFoundError

    monkeypatch.setattr(symbols, "open_mapping", open_mapping)
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
    looked = Symbols()
    looked.next_question()
    assert looked.text(us, ctypes.addressof(first)) == "early"
    with place.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 4096)
    looked.next_question()
    assert looked.text(us, address_of(mapped)) == "late"


def test_for_one_question_a_process_is_looked_at_once(
    us: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    read_maps = symbols._read_maps
    monkeypatch.setattr(symbols, "_read_maps", lambda pid: (read.append(pid), read_maps(pid))[1])
    looked = Symbols()
    for _ in range(3):
        looked.next_question()
        for address in range(1, 8):
            assert looked.text(us, address) is None
            assert looked.kernel(Nameless(us, address, 0))[1] is False
    assert read == [us.pid] * 6


def test_a_kernel_is_found_in_a_library_that_was_loaded_after_the_first_question(
    us: Process, tmp_path: Path
) -> None:
    place = build_library(tmp_path / "libkernels.so", ["late_kernel"])
    looked = Symbols()
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
    looked = Symbols()
    looked.next_question()
    assert looked.kernel(Nameless(us, HANDLE, 0))[1] is False
    library.set(HANDLE)
    assert looked.kernel(Nameless(us, HANDLE, 0))[1] is False
    looked.next_question()
    assert looked.kernel(Nameless(us, HANDLE, 0)) == ("_Z3addv", True)
