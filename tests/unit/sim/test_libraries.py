"""The libraries as files: names, versions, and what a probe finds at a function's start."""

import re
import subprocess

import pytest

from cotenant import sim

PUSH_RBP = 0x55
COMPARE = 0x81  # cmpl $..., state(%rip): how NVIDIA's drivers 470 to 555 begin.
LIBRARIES = {
    "libcuda.so.1": None,
    "libcudart.so.12": "libcudart.so.12",
    "libcudart.so.13": "libcudart.so.13",
    "libnccl.so.2": None,
}


def _tool(*line: str) -> str:
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout


def _functions(library: str) -> dict[str, int]:
    symbols = _tool("nm", "-D", "--defined-only", str(sim.library_dir() / library))
    rows = (line.split() for line in symbols.splitlines())
    return {name: int(address, 16) for address, kind, name in rows if kind == "T"}


def _first_bytes(library: str) -> dict[str, int]:
    path = sim.library_dir() / library
    sections = _tool("readelf", "-SW", str(path))
    match = re.search(r"\.text\s+PROGBITS\s+(\w+)\s+(\w+)", sections)
    assert match is not None
    shift = int(match[2], 16) - int(match[1], 16)
    image = path.read_bytes()
    return {name: image[address + shift] for name, address in _functions(library).items()}


@pytest.mark.parametrize(
    ("library", "expected"),
    [
        ("libcuda.so.1", COMPARE),
        ("framed/libcuda.so.1", PUSH_RBP),
        ("checked/libcuda.so.1", COMPARE),
        ("libcudart.so.12", PUSH_RBP),
        ("libcudart.so.13", PUSH_RBP),
        ("libnccl.so.2", PUSH_RBP),
    ],
)
def test_every_exported_function_begins_as_the_real_ones_do(library, expected):
    first = _first_bytes(library)
    assert {name: hex(byte) for name, byte in first.items() if byte != expected} == {}
    assert len(first) > 20


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_exported_function_has_an_address_of_its_own(library):
    functions = {
        name: at for name, at in _functions(library).items() if not name.startswith("pnccl")
    }
    assert len(set(functions.values())) == len(functions)


@pytest.mark.parametrize(("library", "version"), LIBRARIES.items())
def test_the_soname_and_the_symbol_versions_are_the_real_ones(library, version):
    dynamic = _tool("readelf", "-d", str(sim.library_dir() / library))
    assert f"Library soname: [{library}]" in dynamic
    tags = {name.partition("@@")[2] for name in _functions(library)}
    assert tags == {version or ""}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_needs_nothing_but_the_c_library(library):
    dynamic = _tool("readelf", "-d", str(sim.library_dir() / library))
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
    assert needed <= {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0"}


def _jumps_between_functions(library: str) -> set[tuple[str, str]]:
    code = _tool("objdump", "-d", "--no-show-raw-insn", str(sim.library_dir() / library))
    exported = {name.partition("@")[0] for name in _functions(library)}
    jumps, inside = set(), ""
    for line in code.splitlines():
        if label := re.match(r"[0-9a-f]+ <([^>]+)>:", line):
            inside = label[1].partition("@")[0]
        elif jump := re.search(r"\bjmp\s+[0-9a-f]+ <([^>+]+)>", line):
            target = jump[1].partition("@")[0]
            if inside in exported and target in exported and target != inside:
                jumps.add((inside, target))
    return jumps


def test_only_the_launches_that_do_so_in_the_real_runtime_jump_to_another_function():
    real = {
        ("__cudaLaunchKernel", "cudaLaunchKernel"),
        ("__cudaLaunchKernel_ptsz", "cudaLaunchKernel_ptsz"),
    }
    assert _jumps_between_functions("libcudart.so.12") == real
    assert _jumps_between_functions("libcudart.so.13") == real
    assert _jumps_between_functions("libcuda.so.1") == set()
    assert _jumps_between_functions("libnccl.so.2") == set()


def test_every_nccl_function_has_a_twin_at_the_same_address():
    functions = _functions("libnccl.so.2")
    plain = {name: at for name, at in functions.items() if not name.startswith("pnccl")}
    assert {f"p{name}": at for name, at in plain.items()} == {
        name: at for name, at in functions.items() if name.startswith("pnccl")
    }
