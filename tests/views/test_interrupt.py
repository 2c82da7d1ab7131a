"""Ctrl-C at any moment ends any command: no traceback, nothing left behind."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
import time

import pytest

from cotenant.views.cli import VERBS
from tests.views.conftest import more_launches

MOMENTS = 20
ENDLESS = "SELECT count(*) FROM range(1000000000000) r WHERE r.range % 7 = 3"
# What a shell shows as 130; or it was done before.
ENDED = (-signal.SIGINT, 128 + signal.SIGINT, 0)


@pytest.fixture
def begun(store, place):
    """``begun(words)``: the command as a process; Ctrl-C waits until Python itself has started."""
    spill = place / "spill"
    spill.mkdir()

    def begun(*words, **more):
        environment = {**os.environ, "COTENANT_STORE": str(store), "TMPDIR": str(spill)}
        command = [sys.executable, "-m", "cotenant", *words]
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return subprocess.Popen(
                command,
                env=environment | more,
                cwd=place,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                process_group=0,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    yield begun
    assert not list(spill.iterdir())


def interrupted(process, after_s):
    time.sleep(after_s)
    # A terminal tells each process of the group.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode in ENDED, err
    assert "Traceback" not in err + out
    assert "Error" not in err


COMMANDS = [
    ("health", "--within", "36500d"),
    ("tenants",),
    ("sql", "FROM cuda_events", "--format", "csv"),
    ("ask", "top_kernels", "--json"),
    ("explain",),
    ("export", "html", "--force"),
    ("export", "perfetto", "--force"),
    ("export", "csv", "--force"),
    ("ship", "--once", "--to", "shipped"),
    ("pull", "--node", "node-a", "--from", "2026-09-21", "--to", "2026-09-22", "--into", "pulled"),
    ("top", "--once"),
    ("serve", "--as-root", "--port", "0"),
    ("sim", "path"),
    ("completion", "bash"),
    ("help",),
]
# What attaches probes, and `top` beside a recording: tests/kernel/test_interrupt.py.
RECORDERS = {"record", "demo", "doctor"}
# What needs a profiler's file of a recording: tests/unit/profiles/test_compared.py.
IMPORTERS = {"import"}


def test_no_command_is_left_out():
    assert {words[0] for words in COMMANDS} | RECORDERS | IMPORTERS == set(VERBS)


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_any_command_ends_at_any_moment(begun, words, place):
    began = time.monotonic()
    first = begun(*words)
    if words[0] == "serve":
        assert first.stdout.readline().startswith("serving")
    else:
        assert first.wait(60) == 0
    took = time.monotonic() - began
    interrupted(first, 0)
    for moment in range(MOMENTS):
        # More of them at the start, where most of the code is.
        interrupted(begun(*words), took * (moment / MOMENTS) ** 2)
    assert not list(place.rglob(".*.part"))


@pytest.fixture
def recorded(store):
    """The store, while something writes into it."""
    ended = threading.Event()

    def write():
        while not ended.wait(0.3):
            more_launches(store, 7, time.time_ns())

    more_launches(store, 7, time.time_ns())
    writer = threading.Thread(target=write)
    writer.start()
    yield store
    ended.set()
    writer.join()


class Terminal:
    """A command on a terminal of its own, where Ctrl-C is a key."""

    def __init__(self, *words):
        self._screen, theirs = pty.openpty()
        self._settings = termios.tcgetattr(theirs)
        self._process = subprocess.Popen(
            [sys.executable, "-c", IN_SESSION, *words], stdin=theirs, stdout=theirs, stderr=theirs
        )
        self._theirs = theirs
        self.said = b""

    def hear(self, seconds, until=None):
        """Read the screen for so long, or until these words."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not (until and until in self.said):
            if select.select([self._screen], [], [], 0.01)[0]:
                self.said += os.read(self._screen, 65536)

    def press(self, key):
        os.write(self._screen, key)

    def ended(self):
        """Its exit code, once it has ended; until then the screen is read, and Ctrl-C repeated."""
        deadline = time.monotonic() + 60
        while self._process.poll() is None:
            assert time.monotonic() < deadline, self.said[-2000:]
            self.press(b"\x03")
            self.hear(0.3)
        as_before = termios.tcgetattr(self._theirs) == self._settings
        os.close(self._screen)
        os.close(self._theirs)
        return self._process.returncode, as_before


# Ctrl-C waits until Python itself has started, as above.
IN_SESSION = """
import fcntl, os, signal, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
os.execv(sys.executable, [sys.executable, "-m", "cotenant", *sys.argv[1:]])
"""


def test_top_beside_a_recording_ends_at_any_moment(recorded):
    words = ("top", "--store", str(recorded))
    began = time.monotonic()
    first = Terminal(*words)
    first.hear(60, until=b"live")
    took = time.monotonic() - began
    assert first.ended() in [(code, True) for code in ENDED]
    for moment in range(MOMENTS):
        top = Terminal(*words)
        # From before its first line of code until after its first refresh.
        top.hear(1.2 * took * moment / MOMENTS)
        code, as_before = top.ended()
        assert code in ENDED, top.said
        assert as_before
        assert b"Traceback" not in top.said


def test_a_query_that_would_take_hours_ends(begun):
    for moment in range(MOMENTS):
        interrupted(begun("sql", ENDLESS), (moment / MOMENTS) ** 2)


def test_a_query_has_a_limit(begun):
    process = begun("sql", "--timeout", "200ms", ENDLESS)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err == "cotenant: no answer after 0.2 s; query less time or fewer rows\n"


def test_what_no_library_notices_has_a_limit_too():
    code = """
import time
from cotenant.views.cli import ending
ending._NOTICES_S = 0
with ending.ends_after(0.1):
    time.sleep(60)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("cotenant: no answer after 0.1 s; ")


def shell(store, line, **more):
    return subprocess.run(
        ["bash", "-c", line],
        env={**os.environ, "COTENANT_STORE": str(store), "P": sys.executable, **more},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("tenants >/dev/full", "No space left on device"),
        ("--help >/dev/full", "No space left on device"),
        ('sql --format parquet "FROM cuda_events" >/dev/full', "No space left on device"),
        ("tenants >&-", "Bad file descriptor"),
    ],
)
def test_an_answer_that_cannot_be_written_is_one_line(store, words, why):
    done = shell(store, f"$P -m cotenant {words}")
    assert done.returncode == 1
    assert f"cotenant: cannot write the answer to stdout: {why}; " in done.stderr
    assert "Traceback" not in done.stderr
    assert "ignored" not in done.stderr


def test_remarks_that_cannot_be_written_are_no_failure(store):
    assert shell(store, "$P -m cotenant tenants 2>/dev/full").returncode == 0
    closed = shell(store, "$P -m cotenant tenants 2>&-")
    assert closed.returncode == 0
    assert "without events" not in closed.stdout


def test_a_pipe_that_is_closed_is_no_failure(store):
    done = shell(store, '$P -m cotenant sql --format csv "FROM range(999999)" | head -1; '
                        'echo ${PIPESTATUS[0]}')  # fmt: skip
    assert (done.stdout, done.stderr) == ('"range"\n0\n', "")


def test_an_encoding_that_lacks_a_character_spells_it(store):
    words = "-m cotenant sql --format json \"SELECT '\\u00e9\\U0001f600' AS a\""
    done = shell(store, f"$P {words}".encode().decode("unicode_escape"), PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout == '[\n{"a": "\\u00e9\\ud83d\\ude00"}\n]\n'
