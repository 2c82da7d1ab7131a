"""Kernel names: told, in passing, of handles used again, of programs that ran before us."""

import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.compiler import build_client
from tests.kernel.conftest import SIM, Cgroup, Recording, record, sim_environment
from tests.kernel.script import Script, warm
from tests.nvcc import build_with_nvcc

LAUNCHES = 7


def names(recording: Recording, pid: int) -> Counter[str]:
    rows = recording.sql(
        f"select kernel_name, count(*) as n from cuda_events where pid = {pid} and op = 'launch' "
        "group by 1"
    )
    return Counter({r["kernel_name"]: r["n"] for r in rows})


def test_a_handle_that_was_unloaded_and_used_again_gets_its_new_name(
    cgroup: Cgroup, store: Path
) -> None:
    with record(store) as recording:
        warm(recording, cgroup)
        script = Script(
            cgroup,
            """
context, module = start()
used = set()
for name in (b"first", b"second", b"third"):
    kernel = out("cuModuleGetFunction", module, name)
    used.add(kernel)
    launch(kernel, times=5)
    call("cuCtxSynchronize")
    call("cuModuleUnload", module)
    module = out("cuModuleLoadData", b"image")
say(handles=len(used))
""",
        )
        assert script.heard() == {"handles": 1}
        script.end()
    assert names(recording, script.pid) == Counter(first=5, second=5, third=5)


def test_names_in_passing_and_aliases_name_what_was_launched_before(
    cgroup: Cgroup, store: Path
) -> None:
    text = """
context, module = start()
library = out("cuLibraryLoadData", b"code", None, None, 0, None, None, 0)
kernel = out("cuLibraryGetKernel", library, b"_Z6kernelPf")
function = out("cuKernelGetFunction", kernel)
say(ready=1)
wait()
launch(function, times=3)
launch(kernel, times=5)
asked = c_uint64()
call("cuFuncGetName", byref(asked), function)
call("cuKernelGetName", byref(asked), kernel)
say(ready=2)
"""
    with record(store) as recording:
        warm(recording, cgroup)
        script = Script(cgroup, text)
        script.heard()
        script.go_on()
        script.end()
    assert names(recording, script.pid) == Counter({"kernel(float*)": 8})
    late = Script(cgroup, text)
    late.heard()
    with record(store.with_name("late")) as recording:
        late.go_on()
        late.end()
    # Launched before anybody asked for the name, and stored in the same breath.
    assert names(recording, late.pid) == Counter({"kernel(float*)": 8})


def test_a_name_in_a_page_that_is_not_there_yet_is_read_from_its_file(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    place = tmp_path / "names"
    place.write_bytes(bytes(8192) + b"_Z9cold_pathv\0" + bytes(4096))
    with record(store) as recording:
        warm(recording, cgroup, "libcudart.so.12")
        script = Script(
            cgroup,
            f"""
libc = ctypes.CDLL(None)
libc.mmap.restype = c_void_p
fd = os.open({str(place)!r}, os.O_RDONLY)
at = libc.mmap(None, c_uint64(16384), 1, 2, fd, c_uint64(0))
runtime = ctypes.CDLL("libcudart.so.12")
runtime.__cudaRegisterFatBinary.restype = c_void_p
binary = c_void_p(runtime.__cudaRegisterFatBinary(struct.pack("<IIQQ", 0x466243b1, 1, 0, 0)))
register = runtime["__cudaRegisterFunction"]
name = c_void_p(at + 8192)
register(binary, c_void_p(0x10000), name, name, -1, None, None, None, None, None)
runtime.__cudaRegisterFatBinaryEnd(binary)
dim = (c_uint64(3 | 1 << 32), c_uint64(1))
for _ in range(7):
    runtime.cudaLaunchKernel(c_void_p(0x10000), *dim, *dim, None, c_uint64(0), None)
""",
        )
        script.end()
    assert names(recording, script.pid) == Counter({"cold_path()": 7})
    notes = json.loads(recording.sql("select notes from sessions")[0]["notes"])
    assert notes["unreadable"] >= 1


def long_name(last: str) -> tuple[str, str]:
    """A template over 229 types and one more: mangled, and as people write it."""
    spaces = [*(f"name_space_{n}" for n in range(229)), last]
    mangled = "".join(f"N{len(space)}{space}4typeE" for space in spaces)
    return (
        f"_Z6kernelI{mangled}EvPf",
        f"void kernel<{', '.join(f'{s}::type' for s in spaces)}>(float*)",
    )


def test_names_of_kilobytes_are_told_apart_at_their_end_and_stored_once(
    cgroup: Cgroup, store: Path
) -> None:
    (first, first_shown), (second, second_shown) = long_name("first"), long_name("second")
    assert len(first) > 5000
    with record(store) as recording:
        warm(recording, cgroup)
        script = Script(
            cgroup,
            "context, module = start()\n"
            f"launch(out('cuModuleGetFunction', module, b'{first}'), times=1009)\n"
            f"launch(out('cuModuleGetFunction', module, b'{second}'), times=1013)\n",
        )
        script.end()
    assert names(recording, script.pid) == Counter({first_shown: 1009, second_shown: 1013})
    stored = sum(f.stat().st_size for f in store.glob("cuda_events/**/*.parquet"))
    assert stored < 2022 * len(first) // 10


@contextmanager
def stubs(cgroup: Cgroup, program: Path) -> Iterator[tuple[Any, dict[str, int]]]:
    """The hand-made nvcc program, which has launched already."""
    environment = sim_environment()
    process = cgroup.popen([program, LAUNCHES], stdin=subprocess.PIPE, env=environment)
    said = json.loads(process.stdout.readline())
    try:
        yield process, said
    finally:
        process.communicate(timeout=60)


def run_late(cgroup: Cgroup, program: Path, store: Path) -> Counter[str]:
    """Names of launches in a recording that began after the program."""
    with stubs(cgroup, program) as (process, _), record(store) as recording:
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
    return names(recording, process.pid)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("stubs") / "stubs"
    return build_client(place, "stubs", f"-L{SIM}", "-l:libcudart.so.13", "-Wl,--build-id=sha1")


def test_a_program_that_ran_before_is_named_by_its_symbols_and_its_handles(
    cgroup: Cgroup, store: Path, program: Path
) -> None:
    assert run_late(cgroup, program, store) == Counter(
        {"alpha(float*)": LAUNCHES, "beta(float*)": LAUNCHES}
    )


def test_a_stripped_program_that_ran_before_is_told_by_build_and_place(
    cgroup: Cgroup, store: Path, program: Path
) -> None:
    stripped = program.with_name("stripped")
    shutil.copy(program, stripped)
    subprocess.run(["strip", stripped], check=True)
    found = run_late(cgroup, stripped, store)
    notes = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True)
    build = re.search(r"Build ID: (\w+)", notes.stdout)
    assert build is not None
    assert sorted(found.values()) == [LAUNCHES, LAUNCHES]
    assert all(name.startswith(f"unknown@{build[1]}+0x") for name in found)


def test_what_nvcc_builds_is_named_from_the_start_and_late(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    source = tmp_path / "k.cu"
    source.write_text(
        "#include <cstdio>\n"
        "template <typename T> __global__ void scale(T *p, T f) { p[threadIdx.x] *= f; }\n"
        "__global__ void plain(float *p) { p[0] = 1; }\n"
        "static void go(int n) { for (int i = 0; i < n; i++) { scale<float><<<3, 32>>>(0, 1.f);\n"
        "  plain<<<5, 64>>>(0); } }\n"
        'int main() { go(3); puts("{}"); fflush(stdout);\n'
        '  while (getchar() != EOF) { go(7); puts("{}"); fflush(stdout); } }\n'
    )
    program = build_with_nvcc(tmp_path / "k", source)
    wanted = {"void scale<float>(float*, float)": 7, "plain(float*)": 7}
    assert run_late(cgroup, program, store) == Counter(wanted)
    with record(store.with_name("early")) as recording:
        warm(recording, cgroup, "libcudart.so.13")
        with stubs(cgroup, program) as (process, _):
            pass
    assert names(recording, process.pid) == Counter(dict.fromkeys(wanted, 3))


def test_names_with_control_characters_and_of_megabytes_harm_nobody(
    cgroup: Cgroup, store: Path
) -> None:
    with record(store) as recording:
        warm(recording, cgroup)
        script = Script(
            cgroup,
            r"""
context, module = start()
launch(out("cuModuleGetFunction", module, b"a\x1b[2J\x07\n\xff"), times=3)
launch(out("cuModuleGetFunction", module, b"_Z" + b"z" * 10_000_000), times=5)
launch(out("cuModuleGetFunction", module, b"_Z1fI" + b"PI" * 1500), times=7)
""",
        )
        script.end()
    found = names(recording, script.pid)
    assert found["a\ufffd[2J\ufffd\ufffd\ufffd"] == 3
    assert sorted(found.values()) == [3, 5, 7]
    assert max(len(name) for name in found) < 16384
    assert os.path.exists(store)
