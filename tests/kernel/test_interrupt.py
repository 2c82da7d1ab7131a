"""Ctrl-C while a recording starts: at any moment it ends, in silence, and leaves no probe."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kernel.objects import in_kernel

MOMENTS = 20


def started(words: list[str]) -> "subprocess.Popen[str]":
    """The command; Ctrl-C waits until Python itself has started."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "cotenant", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@pytest.mark.parametrize("verb", ["record", "doctor"])
def test_what_attaches_ends_at_any_moment(verb: str, tmp_path: Path) -> None:
    before = in_kernel()
    words = [verb, "--store", str(tmp_path / "store")]
    began = time.monotonic()
    with started(words) as first:
        assert first.stderr is not None
        if verb == "record":
            assert first.stderr.readline().startswith("recording")
            took = time.monotonic() - began
            first.send_signal(signal.SIGINT)
            assert first.wait(60) == 0
        else:
            assert first.wait(120) in (0, 3)
            took = time.monotonic() - began
    for moment in range(MOMENTS):
        with started(words) as process:
            time.sleep(took * (moment / MOMENTS) ** 2)
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=60)[1]
            assert process.returncode in (-signal.SIGINT, 128 + signal.SIGINT, 0, 3), said
            assert "Traceback" not in said
    deadline = time.monotonic() + 60
    while left := in_kernel() - before:
        assert time.monotonic() < deadline, left
        time.sleep(0.2)
