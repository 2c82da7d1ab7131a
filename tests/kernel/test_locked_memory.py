"""A process that keeps its own memory locked: nobody waits for it, and nothing is left untold.

Its file system delivers no page, and it reads one of them from its own memory: until it comes, the
kernel can neither tell what the process has mapped nor place a probe there.
"""

import mmap
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from cotenant.probes.attach import Method
from cotenant.probes.code_mappings import CodeMappings
from cotenant.probes.memory_locks import HeldUp, MemoryLocks
from cotenant.probes.programs import Programs, Sizes, load_locks, load_object
from tests.kernel.compiler import CLIENTS, build_client
from tests.kernel.conftest import (
    SIM,
    Cgroup,
    Recording,
    new_cgroup,
    record,
    sim_environment,
)
from tests.kernel.script import Script, warm
from tests.kernel.test_holes import lacks
from tests.kernel.test_hostile_files import CALLS, NEIGHBOUR

PAGES = 300

TWICE = f"""{NEIGHBOUR}
wait()
launch(out("cuModuleGetFunction", module, b"later"), times={CALLS})
say(done=2)
"""


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    with record(tmp_path / "store") as found, new_cgroup() as group:
        warm(found, group)
        yield found


def names(recording: Recording, pid: int) -> dict[str, int]:
    rows = recording.sql(
        "select kernel_name, count(*) as n from cuda_events "
        f"where pid = {pid} and op = 'launch' group by 1"
    )
    return {row["kernel_name"]: row["n"] for row in rows}


@contextmanager
def locked(
    tmp_path: Path, *options: object, seconds: int = 240
) -> Iterator[tuple["subprocess.Popen[str]", "subprocess.Popen[str]"]]:
    """A process that keeps its memory locked, and the file system that it waits for."""
    place = tmp_path / "hanging"
    place.mkdir()
    locker = build_client(tmp_path / "locker", "locker")
    with new_cgroup() as storm:
        served = storm.popen([sys.executable, CLIENTS / "hanging_fs.py", place, 4096, seconds])
        process = None
        try:
            assert served.stdout.readline() == "mounted\n"
            process = storm.popen([locker, *options, place / "libcuda.so.1"], stdin=subprocess.PIPE)
            assert process.stdout.readline() == "locked\n"
            yield process, served
        finally:
            served.kill()
            served.communicate()
            if process is not None:
                process.communicate()
            subprocess.run(["umount", "--lazy", place], check=True)


def own_library(place: Path) -> Path:
    place.mkdir()
    return Path(shutil.copy(SIM / "libcuda.so.1", place))


def test_whoever_locks_its_own_memory_holds_up_nobody_whose_files_it_does_not_map(
    recording: Recording, tmp_path: Path
) -> None:
    with locked(tmp_path), ExitStack() as groups:
        calm = [groups.enter_context(new_cgroup()) for _ in range(2)]
        # For the second it is known already that somebody keeps its memory locked.
        new = [neighbour(recording, group, tmp_path / group.name) for group in calm]
        recording.stop()
        for group, pid in zip(calm, new, strict=True):
            assert names(recording, pid) == {"mine": CALLS}
            assert lacks(recording, group) == []
    said = recording.sql("select libraries, notes from sessions")
    assert "keeps its memory locked" not in str(said)


def neighbour(recording: Recording, group: Cgroup, place: Path) -> int:
    """A job with a library of its own, which calls it when it is probed."""
    library = own_library(place)
    search = f"{place}:{SIM}"
    job = group.popen(["sleep", "300"], env=sim_environment() | {"LD_LIBRARY_PATH": search})
    recording.wait_probed(library)
    script = Script(group, NEIGHBOUR, LD_LIBRARY_PATH=search)
    assert script.heard() == {"ready": 1}
    script.go_on()
    assert script.heard() == {"done": 1}
    script.end()
    job.kill()
    job.communicate()
    return script.pid


def test_whoever_locks_its_own_memory_is_waited_for_by_nobody_and_what_that_costs_is_told(
    recording: Recording, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    library = own_library(mine)
    with locked(tmp_path, "-m", library) as (locker, served), new_cgroup() as calm:
        known = Script(calm, TWICE)
        assert known.heard() == {"ready": 1}
        known.go_on()
        assert known.heard() == {"done": 1}
        new = Script(calm, TWICE, LD_LIBRARY_PATH=f"{mine}:{SIM}")
        assert new.heard() == {"ready": 1}
        new.go_on()
        assert new.heard() == {"done": 1}
        recording.wait_for(
            "select 1 from losses where reason = 'functions refused' and cgroup_id in "
            f"(select cgroup_id from containers where cgroup_path = '/{calm.name}')"
        )
        said = recording.sql(f"select libraries from sessions where libraries like '%{library}%'")
        assert f"process {locker.pid} keeps its memory locked" in said[0]["libraries"]
        assert names(recording, new.pid) == {}
        known.go_on()
        assert known.heard() == {"done": 2}
        served.kill()
        assert locker.stdout.readline() == "free\n"
        # When probes came late, that is told once they are there.
        recording.wait_for(f"select 1 from sessions where notes like '%{library}%'")
        new.go_on()
        assert new.heard() == {"done": 2}
        for script in (new, known):
            script.end()
        recording.stop()
        assert names(recording, known.pid) == {"mine": CALLS, "later": CALLS}
        assert names(recording, new.pid) == {"later": CALLS}


ENDS = """
import ctypes, os, threading, time
def work():
    os.write(1, b"ready\\n")
    time.sleep(60)
for _ in range(3):
    threading.Thread(target=work).start()
ctypes.CDLL(None).syscall(60, 0)
"""


@pytest.fixture
def locks() -> Iterator[MemoryLocks]:
    made = load_locks()
    assert made.mappers is not None
    yield made
    for fd in made.fds:
        os.close(fd)


@pytest.fixture
def code(locks: MemoryLocks) -> Iterator[CodeMappings]:
    loaded = Programs(Method.SESSION)
    load_object(loaded, "vma", {"code_mappings": -1}, Sizes(65536, 4096), {})
    yield CodeMappings(loaded.programs["code_mappings"], locks)
    loaded.close()


def test_a_lock_matters_for_the_files_that_its_process_maps(
    locks: MemoryLocks, tmp_path: Path
) -> None:
    paths = [tmp_path / name for name in ("mapped", "other")]
    for path in paths:
        path.write_bytes(bytes(4096 * PAGES))
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("rb")) for path in paths]
        # A tree of some depth: the one that matters is anywhere in it.
        ours = [
            mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ, offset=4096 * page)
            for file in files
            for page in range(PAGES)
        ]
        mapped, other = [file.fileno() for file in files]
        locker, _ = stack.enter_context(locked(tmp_path, "-m", paths[0]))
        locks.wait_until_free(other, 5)
        with pytest.raises(HeldUp, match=f"process {locker.pid} keeps its memory locked"):
            locks.wait_until_free(mapped, 1)
    assert len(ours) == 2 * PAGES
    with paths[0].open("rb") as file:
        locks.wait_until_free(file.fileno(), 5)


def test_a_fork_with_locked_memory_matters_for_every_file(
    locks: MemoryLocks, tmp_path: Path
) -> None:
    """Nothing is probed here: that would keep the whole host from forking."""
    path = tmp_path / "file"
    path.write_bytes(bytes(4096))
    with path.open("rb") as file, locked(tmp_path, "-f", seconds=20) as (locker, served):
        related = locks.of_file(file.fileno(), locks.kept())
        try:
            locks.wait_until_free(file.fileno(), 1)
            said = ""
        except HeldUp as error:
            said = str(error)
        served.kill()
        assert locker.stdout.readline() == "free\n"
        assert related == set()
        assert said == f"process {locker.pid} keeps its memory locked: end that process"
        locks.wait_until_free(file.fileno(), 5)


def test_the_fuse_file_system_that_a_locked_process_waits_for_is_found(
    locks: MemoryLocks, tmp_path: Path
) -> None:
    with locked(tmp_path) as (locker, _):
        (space,) = [space for space, lock in locks.kept().items() if lock.pid == locker.pid]
        assert locks.mappers is not None
        device = os.lstat(tmp_path / "hanging").st_dev
        assert locks.mappers.fuse_devices(space) == {os.minor(device)}
        ours = [space for space in locks.spaces() if locks.pids([space]) == [os.getpid()]]
        assert locks.mappers.fuse_devices(ours[0]) == set()


def test_a_process_whose_first_thread_has_ended_is_still_there_once(code: CodeMappings) -> None:
    child = subprocess.Popen([sys.executable, "-c", ENDS], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert [child.stdout.readline() for _ in range(3)] == [b"ready\n"] * 3
        while "Z" not in Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2]:
            pass
        found = np.concatenate(list(code.everywhere()))
        mine = found[found["process"] == child.pid]
        (thread,) = set(mine["pid"].tolist())
        assert thread != child.pid
        text = Path(f"/proc/{thread}/maps").read_text().splitlines()
        files = [line for line in text if "x" in line.split()[1] and "/" in line]
        assert len(mine) == len(files)
        assert code.of(child.pid).tobytes() == mine.tobytes()
    finally:
        child.kill()
        child.communicate()
