"""Clients written as a few lines of Python on the stand-in libraries."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.kernel.conftest import (
    DRIVERS,
    PATIENCE,
    SIM,
    Cgroup,
    Recording,
    probed,
    sim_environment,
)

PRELUDE = """
import ctypes, json, os, signal, struct, sys, threading, time
from ctypes import byref, c_int, c_uint, c_uint64, c_void_p
cuda = ctypes.CDLL("libcuda.so.1")

def value(x):
    return c_void_p(x) if isinstance(x, int) and x > 0x7fffffff else x

def call(name, *args, result=0):
    done = getattr(cuda, name)(*[value(a) for a in args])
    assert result is None or done == result, (name, done)
    return done

def out(name, *args):
    made = c_uint64()
    call(name, byref(made), *args)
    return made.value

def launch(kernel, stream=0, times=1, grid=(3, 1, 1)):
    for _ in range(times):
        call("cuLaunchKernel", kernel, *grid, 32, 1, 1, 0, c_void_p(stream), None, None)

def start():
    call("cuInit", 0)
    context = out("cuDevicePrimaryCtxRetain", 0)
    call("cuCtxSetCurrent", context)
    module = out("cuModuleLoadData", b"image")
    return context, module

def say(**words):
    print(json.dumps(words), flush=True)

def wait():
    sys.stdin.readline()
"""

# By what the thread waits for what it queued on a stream; by "never", for nothing.
WAIT_BY = """
def wait_by(style, stream, event, host, memory, spins=False):
    if style == "stream":
        call("cuStreamSynchronize", stream)
    elif style == "context":
        call("cuCtxSynchronize")
    elif style == "event":
        call("cuEventRecord", event, stream)
        call("cuEventSynchronize", event)
    elif style == "query":
        while call("cuStreamQuery", stream, result=None):
            if not spins:
                time.sleep(0.0002)
    elif style == "copy":
        call("cuMemcpyDtoH_v2", host, memory, ctypes.c_size_t(256))

"""


class Script:
    """A running client; it says JSON lines, and goes on when told to."""

    def __init__(
        self, cgroup: Cgroup, text: str, driver: str = "tabled", **environment: str
    ) -> None:
        self.process = cgroup.popen(
            [sys.executable, "-c", PRELUDE + text],
            stdin=subprocess.PIPE,
            env=sim_environment(driver=driver, **environment),
        )
        self.pid = self.process.pid

    def heard(self) -> dict[str, Any]:
        """The next thing it says."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the client ended with {self.process.wait()}"
        return json.loads(line)

    def go_on(self) -> None:
        """Let it continue from its wait()."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self, code: int = 0) -> None:
        """Expect it to end so."""
        self.process.communicate(timeout=60 * PATIENCE)
        assert self.process.returncode == code


def warm(recording: Recording, cgroup: Cgroup, *names: str, driver: str = "tabled") -> None:
    """Have libraries of the stand-in mapped once, and wait until they are probed."""
    holder = "".join(f"ctypes.CDLL({name!r})\n" for name in names) + "say(ready=1)\nwait()\n"
    script = Script(cgroup, holder, driver)
    script.heard()
    first = DRIVERS[driver].partition(":")[0]
    # They are all that it has mapped.
    for path in (f"{first}/libcuda.so.1", *(SIM / name for name in names)):
        recording.wait_for(probed(path))
    script.go_on()
    script.end()


def path_of(name: str) -> Path:
    """A library of the stand-in."""
    return SIM / name
