"""A signal that comes at the worst moment stops a loop all the same."""

import signal
import subprocess
import sys

# Signals come all the time, so that some come while a wait begins or ends.
LOOP = """
import os, signal, time
from cotenant.views.cli.stop_signal import StopSignal

stop = StopSignal((signal.SIGUSR1,))
parent, child = os.getpid(), os.fork()
if not child:
    end = time.monotonic() + 50
    while time.monotonic() < end:
        os.kill(parent, signal.SIGUSR1)
    os._exit(0)
for _ in range(503):
    stop = StopSignal((signal.SIGUSR1,))
    while not stop.wait(0.0001):
        pass
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
print("stopped")
"""
WAIT = """
import os, signal
from cotenant.views.cli.stop_signal import StopSignal

stop = StopSignal((signal.SIGTERM,))
before = stop.wait(0.01)
os.kill(os.getpid(), signal.SIGTERM)
print(before, stop.wait(60), stop.wait(0))
"""


def said(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def test_a_signal_in_the_middle_of_a_wait_does_not_hang_it():
    assert said(LOOP) == "stopped\n"


def test_a_wait_lasts_until_a_signal_came():
    assert said(WAIT) == "False True True\n"


_ALONE = """
import os, signal
from cotenant.views.cli.ending import ends_at_once, unwatched
with ends_at_once():
    before = len(os.listdir("/proc/self/task"))
    unwatched()
    print(before - len(os.listdir("/proc/self/task")), flush=True)
    os.kill(os.getpid(), signal.SIGINT)
    print("still here")
"""


def test_a_recorder_is_alone_when_it_gives_up_rights_and_still_ends_at_once():
    done = subprocess.run([sys.executable, "-c", _ALONE], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("1\n", -signal.SIGINT)


_WISHES = """
import os, signal, sys, time
from cotenant.views.cli.stop_signal import StopSignal

stop = StopSignal((signal.SIGINT,), "stopping\\n", lambda: print("at last", flush=True))
for _ in range(3):
    os.kill(os.getpid(), signal.SIGINT)
print(stop.wait(0), flush=True)
time.sleep(0.3)
os.kill(os.getpid(), signal.SIGINT)
print("still here")
"""


def test_what_a_process_and_its_group_are_told_at_once_is_one_wish():
    done = subprocess.run(
        [sys.executable, "-c", _WISHES], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("True\nat last\n", "stopping\n")
    assert done.returncode == -signal.SIGINT
