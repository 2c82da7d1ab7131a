"""Tenants that take what they can get, and a neighbour that knows what it did."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cotenant.schema.events import ENUMS
from tests.kernel.conftest import Cgroup, Recording
from tests.kernel.objects import held, listed
from tests.kernel.script import Script

NOBODY = 65534
# The neighbour: memory, a graph, and launches that it times itself.
CALM = """
from ctypes import c_float
context, module = start()
kernel = out("cuModuleGetFunction", module, b"calm")
held = [out("cuMemAlloc_v2", c_uint64(4099)) for _ in range(5)]
forked, stream, made = out("cuStreamCreate", 1), out("cuStreamCreate", 1), c_uint64()
event = out("cuEventCreate", 0)
call("cuStreamBeginCapture_v2", stream, 0)
call("cuEventRecord", event, c_void_p(stream))
call("cuStreamWaitEvent", c_void_p(forked), event, 0)
launch(kernel, forked, times=97)
call("cuEventRecord", event, c_void_p(forked))
call("cuStreamWaitEvent", c_void_p(stream), event, 0)
call("cuStreamEndCapture", stream, byref(made))
exec_ = out("cuGraphInstantiateWithFlags", made.value, c_uint64(0))
for _ in range(3):
    call("cuGraphLaunch", exec_, stream)
for _ in range(13):
    before, after, ms = out("cuEventCreate", 0), out("cuEventCreate", 0), c_float()
    call("cuEventRecord", before, c_void_p(stream))
    launch(kernel, stream)
    call("cuEventRecord", after, c_void_p(stream))
    call("cuEventSynchronize", after)
    call("cuEventElapsedTime", byref(ms), before, after)
say(done=1)
wait()
call("cuMemFree_v2", held.pop())
say(freed=1)
wait()
"""


@contextmanager
def delegated(cgroup: Cgroup) -> Iterator[Cgroup]:
    """A cgroup that was given to an ordinary user, as by systemd; emptied at the end."""
    for name in ("", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"):
        os.chown(cgroup.path / name, NOBODY, NOBODY)
    try:
        yield cgroup
    finally:
        (cgroup.path / "cgroup.kill").write_text("1")
        for directory, _, _ in os.walk(cgroup.path, topdown=False):
            if directory != str(cgroup.path):
                _remove(Path(directory))


def _remove(directory: Path) -> None:
    for _ in range(1000):
        try:
            directory.rmdir()
            return
        except OSError:
            os.sched_yield()


class Client:
    """A program of an attacker: it says JSON lines, and goes on when told to."""

    def __init__(
        self, recording: Recording, home: Cgroup, program: Path, library: Path, *words: object
    ) -> None:
        self.process = home.popen([program, library, *words], stdin=subprocess.PIPE)
        assert self.heard() == {"ready": 1}
        recording.wait_probed(library)

    def heard(self) -> dict[str, int]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it ended with {self.process.wait()}"
        said: dict[str, int] = json.loads(line)
        return said

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.communicate("\n", timeout=60)
        assert self.process.returncode == 0


_QUOTAS = {name: number for number, name in ENUMS["quota"].items()}


def used(recording: Recording, cgroup: Cgroup, quota: str) -> int:
    """How many entries of a map the kernel counts for a tenant of the recording that runs."""
    key = map(str, cgroup.path.stat().st_ino.to_bytes(8, "little"))
    command = ["bpftool", "map", "lookup", "id", str(_map(recording, "usage")), "key", *key]
    found = subprocess.run([*command, "-j"], check=True, capture_output=True, text=True).stdout
    value = bytes(int(byte, 16) for byte in json.loads(found)["value"])
    return int.from_bytes(value[8 * _QUOTAS[quota] :][:8], "little", signed=True)


def shrink(recording: Recording, **rooms: int) -> None:
    """Make maps of the recording that runs as good as smaller."""
    number = str(_map(recording, "rooms"))
    for name, most in rooms.items():
        key, value = _QUOTAS[name].to_bytes(4, "little"), most.to_bytes(16, "little")
        words = ["key", *map(str, key), "value", *map(str, value)]
        subprocess.run(["bpftool", "map", "update", "id", number, *words], check=True)


def _map(recording: Recording, name: str) -> int:
    """The number of a map of the recording that runs."""
    mine = held([recording.helper()])
    named = (each["id"] for each in listed("map") if each.get("name") == name)
    (shared,) = (number for number in named if ("map", number) in mine)
    return int(shared)


def entries(recording: Recording, name: str) -> list[dict[str, Any]]:
    """What is in a map of the recording that runs, as bpftool tells it."""
    words = ["bpftool", "-j", "map", "dump", "id", str(_map(recording, name))]
    told = subprocess.run(words, check=True, capture_output=True)
    return [entry["formatted"] for entry in json.loads(told.stdout)]


def probed_script(recording: Recording, cgroup: Cgroup, text: str, library: Path) -> Script:
    """A client of a library of its own that waits, once its library is probed."""
    script = Script(cgroup, text.replace("LIBRARY", repr(str(library))))
    script.heard()
    recording.wait_probed(library)
    return script
