"""While a probe waits for a memory lock, no process on the host can fork: none waits long.

Whatever keeps a lock here ends by itself, and what measures forks was started before.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.compiler import CLIENTS, build_client
from tests.kernel.conftest import (
    PATIENCE,
    SIM,
    Cgroup,
    Recording,
    new_cgroup,
    probed,
    record,
    sim_environment,
)
from tests.kernel.script import Script

LONGEST_MS = 1000
MIB = 1500  # It takes about a second to make so much memory present.
DELAYS_MS = range(0, 61, 3)
AT_ONCE = 3


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("programs")
    return {name: build_client(place / name, name) for name in ("forker", "holder")}


class Holders:
    """Processes that map a library of their own, and then keep their memory locked."""

    def __init__(self, place: Path, program: Path, stack: ExitStack) -> None:
        self._place = place
        self._program = program
        self._stack = stack
        self._made = 0

    def library(self) -> Path:
        """Another copy of the driver."""
        self._made += 1
        place = self._place / f"own{self._made}"
        place.mkdir()
        return Path(shutil.copy(SIM / "libcuda.so.1", place))

    def start(
        self, library: Path, way: str, delay_ms: int = 0, seconds: int = 20
    ) -> "subprocess.Popen[str]":
        """One that has the library mapped."""
        what: object = MIB
        if way == "fuse":
            what, served = self.hanging(seconds)
        group = self._stack.enter_context(new_cgroup())
        process = group.popen([self._program, library, delay_ms, way, what], stdin=subprocess.PIPE)
        self._stack.callback(process.communicate, timeout=60 * PATIENCE)
        if way == "fuse":
            self._stack.callback(served.communicate)
            self._stack.callback(served.kill)
        assert line(process) == "mapped"
        return process

    def hanging(self, seconds: int) -> "tuple[Path, subprocess.Popen[str]]":
        """A file that is never delivered, for so long, and what serves it."""
        self._made += 1
        place = self._place / f"hanging{self._made}"
        place.mkdir()
        served = subprocess.Popen(
            [sys.executable, CLIENTS / "hanging_fs.py", place, "4096", str(seconds)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert line(served) == "mounted"
        self._stack.callback(subprocess.run, ["umount", "--lazy", place], check=True)
        return place / "libcuda.so.1", served


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.fixture
def holders(programs: dict[str, Path], tmp_path: Path) -> Iterator[Holders]:
    with ExitStack() as stack:
        yield Holders(tmp_path, programs["holder"], stack)


@contextmanager
def forks(program: Path, recording: Recording) -> Iterator[None]:
    """No fork waits long meanwhile, unless that is reported with what was in the way."""
    forker = subprocess.Popen(
        [program, "120"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert line(forker) == "forking"
        yield
    finally:
        longest_ms = float(forker.communicate(timeout=180)[0])
    if longest_ms >= LONGEST_MS:
        reported = [
            text
            for text in recording.errors.read_text().splitlines()
            if "no process could start for" in text and " of holder " in text
        ]
        # Nothing can end a lock that is taken between a look and its probe, but FUSE's.
        assert reported, longest_ms
        assert "FUSE" not in reported[0]


def test_locks_that_are_taken_while_a_library_is_probed_hold_up_no_fork(
    programs: dict[str, Path], holders: Holders, store: Path
) -> None:
    with record(store) as recording, forks(programs["forker"], recording):
        for first in range(0, len(DELAYS_MS), AT_ONCE):
            started = [
                holders.start(holders.library(), "fuse", delay_ms, seconds=2)
                for delay_ms in DELAYS_MS[first : first + AT_ONCE]
            ]
            assert all(line(process).startswith("free") for process in started)


@pytest.mark.parametrize("way", ["populate", "mlock", "fork"])
def test_large_memory_that_is_locked_while_a_library_is_probed_holds_up_no_fork(
    programs: dict[str, Path], holders: Holders, store: Path, way: str
) -> None:
    with record(store) as recording, forks(programs["forker"], recording):
        for delay_ms in (0, 30):
            process = holders.start(holders.library(), way, delay_ms)
            assert line(process).startswith("free")


def kill_recorder(recording: Recording) -> None:
    recording.process.kill()


def kill_helper(recording: Recording) -> None:
    os.kill(recording.helper(), signal.SIGKILL)


def kill_both(recording: Recording) -> None:
    helper = recording.helper()
    recording.process.kill()
    os.kill(helper, signal.SIGKILL)


def rewrite(recording: Recording) -> None:
    (library,) = recording.store.parent.glob("own*/libcuda.so.1")
    with library.open("r+b") as file:
        start = file.read(4)
        file.seek(0)
        file.write(start)


ENDS: dict[str, Callable[[Recording], None]] = {
    "stop": lambda recording: recording.process.send_signal(signal.SIGINT),
    "kill the recorder": kill_recorder,
    "kill the helper": kill_helper,
    "kill both": kill_both,
    "rewrite": rewrite,
}


@pytest.mark.parametrize("way", ["fuse", "populate"])
@pytest.mark.parametrize("end", ENDS)
def test_probes_that_go_while_a_process_keeps_its_memory_locked_hold_up_no_fork(
    programs: dict[str, Path], holders: Holders, store: Path, end: str, way: str
) -> None:
    library = holders.library()
    with record(store, "--quiet") as recording:
        process = holders.start(library, way, delay_ms=4000, seconds=9)
        recording.wait_for(probed(library))
        with forks(programs["forker"], recording):
            # It keeps its memory locked from soon on.
            wait_locked(process.pid)
            ENDS[end](recording)
            assert line(process).startswith("free")
        if end == "rewrite":
            recording.stop()
        recording.process.wait(60 * PATIENCE)
        recording.stopped = True
    assert recording.sql("select count(*) as n from sessions")[0]["n"] == 1


def wait_locked(pid: int) -> None:
    """Until it does more than sleep."""
    while "nanosleep" in Path(f"/proc/{pid}/wchan").read_text():
        pass


NEIGHBOUR = """
say(ready=1)
wait()
context, module = start()
launch(out("cuModuleGetFunction", module, b"mine"), times=5010)
say(done=1)
"""


def test_a_neighbour_of_ten_holders_lacks_no_launch(holders: Holders, store: Path) -> None:
    with record(store) as recording, new_cgroup() as calm:
        for _ in range(10):
            holders.start(holders.library(), "fuse")
        found = neighbour(calm, recording, holders.library())
        recording.stop()
    assert found(recording) == [{"kernel_name": "mine", "n": 5010}]


def neighbour(
    group: Cgroup, recording: Recording, library: Path
) -> Callable[[Recording], list[dict[str, Any]]]:
    """A job with a driver of its own, which it uses as soon as it is probed."""
    script = Script(group, NEIGHBOUR, LD_LIBRARY_PATH=f"{library.parent}:{SIM}")
    script.heard()
    recording.wait_for(probed(library), seconds=5)
    script.go_on()
    script.heard()
    script.end()
    return lambda recording: recording.sql(
        "select kernel_name, count(*) as n from cuda_events "
        f"where pid = {script.pid} and op = 'launch' group by 1"
    )


def test_nothing_is_left_of_a_recorder_that_was_killed_while_it_was_used(
    cgroup: Cgroup, store: Path
) -> None:
    """The programs are switched off at once; the probes go soon after."""
    workload = [SIM / "workload", "launch", "--api", "driver", "--steps", "100000000"]
    tenant = cgroup.popen([*workload, "--rate", "2000"], env=sim_environment())
    with record(store, "--quiet") as recording:
        recording.wait_for("select 1 from cuda_events limit 1")
        kill_both(recording)
        recording.process.wait()
        recording.stopped = True
    tenant.kill()
    tenant.communicate()
