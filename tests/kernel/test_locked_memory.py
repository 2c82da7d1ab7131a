"""A process that keeps its own memory locked: nobody waits for it, and nothing is left untold.

Its file system delivers no page, and it reads one of them from its own memory: until it comes, the
kernel can neither tell what the process has mapped nor place a probe there.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cotenant.probes.attach import Method
from cotenant.probes.code_mappings import CodeMappings
from cotenant.probes.programs import Programs, Sizes, load_object
from tests.kernel.compiler import CLIENTS, build_client
from tests.kernel.conftest import SIM, Recording, new_cgroup, record
from tests.kernel.script import Script, warm
from tests.kernel.test_hostile_files import CALLS, NEIGHBOUR

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


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[tuple["subprocess.Popen[str]", "subprocess.Popen[str]"]]:
    """A process that keeps its memory locked, and the file system that it waits for."""
    place = tmp_path / "hanging"
    place.mkdir()
    locker = build_client(tmp_path / "locker", "locker")
    with new_cgroup() as storm:
        served = storm.popen([sys.executable, CLIENTS / "hanging_fs.py", place, 4096])
        process = None
        try:
            assert served.stdout.readline() == "mounted\n"
            process = storm.popen([locker, place / "libcuda.so.1"], stdin=subprocess.PIPE)
            assert process.stdout.readline() == "locked\n"
            yield process, served
        finally:
            served.kill()
            served.communicate()
            if process is not None:
                process.communicate()
            subprocess.run(["umount", place], check=True)


def test_whoever_locks_its_own_memory_is_waited_for_by_nobody_and_what_that_costs_is_told(
    recording: Recording,
    locked: tuple["subprocess.Popen[str]", "subprocess.Popen[str]"],
    tmp_path: Path,
) -> None:
    locker, served = locked
    mine = tmp_path / "mine"
    mine.mkdir()
    with new_cgroup() as calm:
        known = Script(calm, TWICE)
        assert known.heard() == {"ready": 1}
        known.go_on()
        assert known.heard() == {"done": 1}
        library = shutil.copy(SIM / "libcuda.so.1", mine)
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


def test_a_process_whose_first_thread_has_ended_is_still_there_once() -> None:
    loaded = Programs(Method.SESSION)
    programs = {"code_mappings": -1, "locked_memory": -1}
    load_object(loaded, "vma", programs, Sizes(events_bytes=65536, facts_bytes=4096), {})
    code = CodeMappings(*(loaded.programs[name] for name in programs))
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
