"""Ctrl-C while something records: at any moment it ends, says no traceback and leaves nothing."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.kernel.conftest import cgroup_root
from tests.kernel.objects import in_kernel

MOMENTS = 20
ENDED = (-signal.SIGINT, 128 + signal.SIGINT, 0)


def started(words: list[str], **variables: str) -> "subprocess.Popen[str]":
    """The command as a terminal starts it; Ctrl-C waits until Python itself has started."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "cotenant", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
            env={**os.environ, **variables},
        )
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def interrupt(process: "subprocess.Popen[str]", after_s: float) -> None:
    """Press Ctrl-C, of which a terminal tells each process of the group."""
    time.sleep(after_s)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)


def check_ended(process: "subprocess.Popen[str]", *also: int) -> str:
    """It ends soon, and well; what it said."""
    out, err = process.communicate(timeout=90)
    assert process.returncode in (*ENDED, *also), err
    assert "Traceback" not in out + err
    assert "ignored" not in err
    return err


def interrupt_verb(verb: str, store: Path, moments: list[int]) -> None:
    """At each of these moments, of which the last are beyond its start."""
    words = [verb, "--store", str(store)]
    began = time.monotonic()
    with started(words) as first:
        assert first.stderr is not None
        if verb == "record":
            assert first.stderr.readline().startswith("recording")
            took = time.monotonic() - began
            interrupt(first, 0)
            assert "stopping: sealing what was recorded" in check_ended(first)
        else:
            assert first.wait(120) in (0, 3)
            took = time.monotonic() - began
    for moment in moments:
        with started(words) as process:
            # Those beyond 1 interrupt a recording that runs.
            interrupt(process, took * 1.3 * (moment / MOMENTS) ** 2)
            check_ended(process, 3)


@pytest.mark.parametrize("verb", ["record", "doctor"])
def test_what_attaches_ends_at_any_moment(verb: str, tmp_path: Path) -> None:
    """Two take turns, and run side by side."""
    before = in_kernel()
    in_parallel(
        [
            partial(interrupt_verb, verb, tmp_path / f"store{lane}", [*range(lane, MOMENTS, 2)])
            for lane in range(2)
        ]
    )
    deadline = time.monotonic() + 60
    while left := in_kernel() - before:
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


class Demos:
    """Demos that run where there is Docker, or where there is none; in a place of their own."""

    def __init__(self, path: str) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="ct-")  # Short: a socket is in it.
        self.directory = Path(self._place.name)
        self._variables = {"PATH": path, "TMPDIR": self._place.name}

    def started(self) -> "subprocess.Popen[str]":
        words = ["demo", "--for", "1s", "--store", str(self.directory / "store")]
        return started(words, **self._variables)

    def life_s(self) -> float:
        """How long one lives that nobody interrupts."""
        began = time.monotonic()
        with self.started() as process:
            assert "stopping" not in check_ended(process)
        assert process.returncode == 0
        return time.monotonic() - began

    def check_gone(self) -> None:
        """No process of theirs, no directory but the store's and that of its tenants' logs."""
        name = os.fsencode(self.directory)
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                assert name not in (process / "environ").read_bytes(), process
                assert name not in (process / "cmdline").read_bytes(), process
        assert {path.name for path in self.directory.iterdir()} <= {"store", "store.sim"}
        self._place.cleanup()


def interrupt_all(demos: Demos, moments: list[float], said: list[str]) -> None:
    """At each of these parts of their life."""
    life_s = demos.life_s()
    for moment in moments:
        with demos.started() as process:
            interrupt(process, life_s * moment)
            said.append(check_ended(process))


def test_a_demo_ends_at_any_moment_and_leaves_nothing(tmp_path: Path) -> None:
    """Those in containers and those in cgroups take turns, and run side by side."""
    moments = [n / MOMENTS for n in range(MOMENTS)]
    docker, no_docker = os.environ["PATH"], str(tmp_path)
    lanes = [
        (Demos(path), moments[lane::4])
        for lane, path in enumerate([docker, no_docker, docker, no_docker])
    ]
    said: list[str] = []
    in_parallel([partial(interrupt_all, *lane, said) for lane in lanes])
    assert len(said) == MOMENTS
    for demos, _ in lanes:
        demos.check_gone()
    assert not list(cgroup_root().glob("*.demo"))
    # Some were stopped while they recorded, and sealed that.
    assert any("stopped; what was recorded is in" in one for one in said)


def in_parallel(works: list[Callable[[], None]]) -> None:
    """Do all at once; the first failure is that of all."""
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as failure:  # noqa: BLE001
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
