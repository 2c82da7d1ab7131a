"""What a tenant's files and processes do to the helper keeps no neighbour from being seen.

One recording for all attacks. Meanwhile a neighbour brings a library, and has each call recorded.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.kernel.compiler import CLIENTS, build_client, build_library
from tests.kernel.conftest import SIM, Cgroup, Recording, new_cgroup, record, sim_environment
from tests.kernel.hostile_files import (
    STRINGS_BYTES,
    endless,
    heavy,
    many_symbols,
    memory_at_most,
    overlapping,
    wait_looked_at,
)
from tests.kernel.script import Script, warm

CALLS = 211
LATE_CALLS = 97

NEIGHBOUR = f"""
say(ready=1)
wait()
context, module = start()
launch(out("cuModuleGetFunction", module, b"mine"), times={CALLS})
say(done=1)
"""

# Maps files as code, one after the other, and asks for names that nobody knows.
MAPS = """
import mmap, pathlib
kept = []
for path in sorted(pathlib.Path(PLACE).glob("*.so*")):
    with path.open("rb") as file:
        code = mmap.PROT_READ | mmap.PROT_EXEC
        kept.append(mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, code))
say(ready=1)
for number in range(1 << 30):
    call("cuLaunchKernel", (0x7000 << 32) + number, *[1] * 6, 0, None, None, None, result=None)
    time.sleep(0.01)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def early(place: Path) -> Iterator["subprocess.Popen[str]"]:
    """A large program that launched before it was recorded: its names are in its file alone."""
    names = many_symbols(place / "names.s")
    program = build_client(place / "stubs", "stubs", str(names), f"-L{SIM}", "-l:libcudart.so.13")
    with new_cgroup() as group:
        process = group.popen([program, LATE_CALLS], stdin=subprocess.PIPE, env=sim_environment())
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.communicate(timeout=60)


@pytest.fixture(scope="module")
def recording(place: Path, early: object) -> Iterator[Recording]:
    with record(place / "store") as found, new_cgroup() as group:
        warm(found, group)
        yield found
        found.stop()


@contextmanager
def attack(*command: object) -> Iterator["subprocess.Popen[str]"]:
    """A storm in a cgroup of its own, until the end of the block."""
    with new_cgroup() as group:
        process = group.popen(list(command), stdin=subprocess.PIPE, env=sim_environment())
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=60)


@contextmanager
def script_attack(text: str) -> Iterator[Script]:
    with new_cgroup() as group:
        script = Script(group, text)
        try:
            assert script.heard() == {"ready": 1}
            yield script
            assert script.process.poll() is None
        finally:
            script.process.kill()
            script.process.communicate(timeout=60)


@pytest.fixture
def neighbour_is_seen(recording: Recording, tmp_path: Path) -> Callable[[], None]:
    """Brings a library of its own while somebody storms."""

    def check() -> None:
        mine = tmp_path / "neighbour"
        mine.mkdir()
        library = shutil.copy(SIM / "libcuda.so.1", mine)
        with new_cgroup() as group:
            script = Script(group, NEIGHBOUR, LD_LIBRARY_PATH=f"{mine}:{SIM}")
            assert script.heard() == {"ready": 1}
            recording.wait_probed(library)
            script.go_on()
            assert script.heard() == {"done": 1}
            script.end()
            names = (
                "select kernel_name, count(*) as n from cuda_events "
                f"where pid = {script.pid} and op = 'launch' group by 1"
            )
            recording.wait_for(f"from ({names}) where n = {CALLS}")
        assert recording.sql(names) == [{"kernel_name": "mine", "n": CALLS}]

    return check


def test_libraries_with_symbols_by_the_million(
    recording: Recording,
    early: "subprocess.Popen[str]",
    neighbour_is_seen: Callable[[], None],
    tmp_path: Path,
) -> None:
    """They are mapped as code, and names are asked for in them; neighbours' names come in time.

    The helper itself reads none of it: its memory would grow by more than all names of one file.
    """
    for number in range(23):
        heavy(tmp_path / f"lib{number}.so")
    before = memory_at_most(recording.helper())
    with script_attack(MAPS.replace("PLACE", repr(str(tmp_path)))):
        wait_looked_at(recording, tmp_path / "lib0.so")
        assert early.stdin is not None
        assert early.stdout is not None
        early.stdin.write("\n")
        early.stdin.flush()
        early.stdout.readline()
        neighbour_is_seen()
    assert memory_at_most(recording.helper()) - before < STRINGS_BYTES // 2
    rows = recording.sql(
        "select kernel_name, count(*) as n from cuda_events "
        f"where pid = {early.pid} and op = 'launch' group by 1 order by 1"
    )
    assert rows == [
        {"kernel_name": "alpha(float*)", "n": LATE_CALLS},
        {"kernel_name": "beta(float*)", "n": LATE_CALLS},
    ]


def test_tables_that_overlap_and_a_library_of_a_terabyte(
    neighbour_is_seen: Callable[[], None], tmp_path: Path
) -> None:
    for number in range(5):
        overlapping(tmp_path / f"libcuda.so.{number}")
        endless(tmp_path / f"libcudart.so.{number}")
    with script_attack(MAPS.replace("PLACE", repr(str(tmp_path)))):
        neighbour_is_seen()


def test_ten_thousand_tiny_libraries(neighbour_is_seen: Callable[[], None], tmp_path: Path) -> None:
    small = (SIM / "libcuda.so.1").read_bytes()[:4096]
    for number in range(10_007):
        (tmp_path / f"libcuda.so.{number}").write_bytes(small)
    with script_attack(MAPS.replace("PLACE", repr(str(tmp_path)))):
        neighbour_is_seen()


CHANGES = """
import mmap, pathlib, shutil
place = pathlib.Path(PLACE)
good = pathlib.Path(SIM_CUDA).read_bytes()
path = place / "libcuda.so.1"
path.write_bytes(good)
say(ready=1)
for number in range(1 << 30):
    new = place / f"libcuda.so.{number % 7}.new"
    new.write_bytes(good)
    with new.open("r+b") as file:
        kept = mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
        file.seek(64 + number % 4096)
        file.write(bytes(997))
        file.truncate(len(good) - number % 4096)
    new.rename(path)
"""


def test_a_library_that_changes_while_it_is_read_and_is_replaced_without_end(
    neighbour_is_seen: Callable[[], None], tmp_path: Path
) -> None:
    text = CHANGES.replace("PLACE", repr(str(tmp_path)))
    with script_attack(text.replace("SIM_CUDA", repr(str(SIM / "libcuda.so.1")))):
        neighbour_is_seen()


HANGS = """
import mmap
with open(PATH, "rb") as file:
    kept = mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
say(ready=1)
for number in range(1 << 30):
    call("cuLaunchKernel", (0x7000 << 32) + number, *[1] * 6, 0, None, None, None, result=None)
    time.sleep(0.01)
"""


@contextmanager
def hanging(place: Path) -> Iterator[None]:
    """A file system there that opens files, and never answers who reads them."""
    with attack(sys.executable, CLIENTS / "hanging_fs.py", place, 1 << 20) as served:
        assert served.stdout is not None
        assert served.stdout.readline() == "mounted\n"
        try:
            yield
        finally:
            subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="no /dev/fuse here")
def test_a_file_system_that_never_answers(
    neighbour_is_seen: Callable[[], None], tmp_path: Path
) -> None:
    place = tmp_path / "fs"
    place.mkdir()
    hangs = HANGS.replace("PATH", repr(str(place / "libcuda.so.1")))
    with hanging(place), script_attack(hangs):
        neighbour_is_seen()


# As a user to whom a subtree was given: each child is in a cgroup of its own there.
SCATTERED = """
import mmap, os, signal, sys
home, place = sys.argv[1:]
os.chdir(place)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
children = []
for number in range(MANY):
    cgroup = f"{home}/{number}"
    os.mkdir(cgroup)
    if child := os.fork():
        children.append(child)
        continue
    with open(f"{cgroup}/cgroup.procs", "w") as file:
        file.write("0")
    with open(f"libcuda.so.{number}", "rb") as file:
        kept = mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
    os.write(1, b"mapped\\n")
    signal.pause()
signal.pause()
"""
SCATTER = 47  # More than the helper has threads.


@pytest.mark.skipif(not Path("/dev/fuse").exists(), reason="no /dev/fuse here")
def test_file_systems_that_never_answer_in_many_cgroups_of_one_user(
    neighbour_is_seen: Callable[[], None], tmp_path: Path
) -> None:
    place = tmp_path / "fs"
    place.mkdir()
    text = SCATTERED.replace("MANY", str(SCATTER))
    with delegated() as home, hanging(place), ExitStack() as stack:
        storm = Cgroup(home).popen([sys.executable, "-c", text, home, place])
        stack.callback(storm.communicate)
        stack.callback((home / "cgroup.kill").write_text, "1")
        assert storm.stdout is not None
        for _ in range(SCATTER):
            assert storm.stdout.readline() == "mapped\n"
        neighbour_is_seen()


# One graph with kernels by the ten thousand, made executable again and again.
GRAPHS = """
lib = ctypes.CDLL(LIBRARY)
say(ready=1)
wait()
made, params = c_uint64(), (c_uint64 * 16)()
for number in range(1, 20_012):
    made.value, params[0] = number << 8, number << 16
    lib.cuGraphAddKernelNode_v2(byref(made), c_void_p(7), None, c_uint64(0), byref(params))
for number in range(1, 402):
    made.value = number << 8
    lib.cuGraphInstantiateWithFlags(byref(made), c_void_p(7), c_uint64(0))
say(done=1)
wait()
"""


def test_a_large_graph_that_is_copied_again_and_again(
    recording: Recording, neighbour_is_seen: Callable[[], None], tmp_path: Path
) -> None:
    functions = ["cuLaunchKernel", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags"]
    library = build_library(tmp_path / "libcuda.so.1", functions)
    with script_attack(GRAPHS.replace("LIBRARY", repr(str(library)))) as script:
        recording.wait_for(f"select 1 from sessions where libraries like '%{library}%'")
        script.go_on()
        assert script.heard() == {"done": 1}
        neighbour_is_seen()
    ((noted,),) = (row.values() for row in recording.sql("select notes from sessions"))
    assert len(json.loads(noted)["refused"]["graphs"]) == 1


MAPPINGS = """
import mmap
with open(sys.executable, "rb") as file:
    say(ready=1)
    while True:
        mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC).close()
"""


def test_more_mappings_than_anybody_can_follow(neighbour_is_seen: Callable[[], None]) -> None:
    with script_attack(MAPPINGS), script_attack(MAPPINGS):
        neighbour_is_seen()


EXECS = "while :; do /bin/true & /bin/true; wait; done"


def test_programs_that_start_without_end(neighbour_is_seen: Callable[[], None]) -> None:
    with attack("sh", "-c", EXECS), attack("unshare", "-Urm", "sh", "-c", EXECS):
        neighbour_is_seen()


# As a user to whom a subtree was given: cgroups by the thousand, none of them for long.
CGROUPS = """
import os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
print("ready", flush=True)
number = 0
while True:
    number += 1
    path = f"{sys.argv[1]}/{number}"
    os.mkdir(path), os.rmdir(path)
"""
DEPTH = 101


@contextmanager
def delegated() -> Iterator[Path]:
    """A cgroup that belongs to a user, with many nested in it."""
    with new_cgroup() as group:
        nested = [group.path]
        for _ in range(DEPTH):
            nested.append(nested[-1] / "n")
            nested[-1].mkdir()
        for name in ("", "cgroup.procs"):
            os.chown(group.path / name, 65534, 65534)
        try:
            yield group.path
        finally:
            (group.path / "cgroup.kill").write_text("1")
            for path in reversed(nested[1:]):
                remove(path)
            for path in group.path.iterdir():
                if path.is_dir():
                    remove(path)


def remove(path: Path) -> None:
    for _ in range(500):
        try:
            path.rmdir()
            return
        except OSError:
            time.sleep(0.01)


def test_cgroups_by_the_thousand_and_a_hundred_deep(
    recording: Recording, neighbour_is_seen: Callable[[], None]
) -> None:
    with delegated() as path, ExitStack() as stack:
        storm = stack.enter_context(attack(sys.executable, "-c", CGROUPS, path))
        assert storm.stdout is not None
        assert storm.stdout.readline() == "ready\n"
        deep = Cgroup(path / "/".join(["n"] * DEPTH))
        execs = deep.popen(["sh", "-c", EXECS])
        stack.callback(execs.communicate)
        stack.callback(execs.kill)
        neighbour_is_seen()
        time.sleep(2)
        told = recording.sql(
            f"select count(*) as n from containers where cgroup_path like '/{path.name}/%'"
        )
    # Beside those that the host made: the rest goes by the tenant's outermost cgroup.
    assert told[0]["n"] <= 256 + DEPTH
