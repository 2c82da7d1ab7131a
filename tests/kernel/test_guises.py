"""One driver library in many guises: each call is one row, and nobody comes to harm."""

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.beginnings import CONSTANT, FRAME, build_assembly, build_versions
from tests.kernel.conftest import PATIENCE, Recording, another_records, new_cgroup, record
from tests.kernel.script import Script

HEAD = """
def ask(function, count):
    return [function(c_uint64(7), c_uint64(5), c_uint64(n)) for n in range(count)]

def say_when_asked(*functions):
    say(ready=1)
    wait()
    say(answers=[ask(function, 5 + 2 * n) for n, function in enumerate(functions)])
"""
LOADED = "say_when_asked(ctypes.CDLL(PATH).cuMemcpy)"
# What somebody does with the library at PATH, and how many calls that makes.
GUISES = {
    "linked": ("os.link(PATH, PATH + '.link')\nPATH += '.link'\n" + LOADED, 5),
    "copied": ("import shutil\nPATH = shutil.copy(PATH, PATH + '.copy')\n" + LOADED, 5),
    "removed": ("lib = ctypes.CDLL(PATH)\nos.unlink(PATH)\nsay_when_asked(lib.cuMemcpy)", 5),
    "replaced": (
        "lib = ctypes.CDLL(PATH)\nos.rename(PATH + '.new', PATH)\n"
        "say_when_asked(lib.cuMemcpy, ctypes.CDLL(PATH).cuMemcpy)",
        12,
    ),
    "in memory": (
        "fd = os.memfd_create('x')\nos.write(fd, open(PATH, 'rb').read())\n"
        "PATH = f'/proc/self/fd/{fd}'\n" + LOADED,
        5,
    ),
    "twice": (
        "libc = ctypes.CDLL(None)\nlibc.dlmopen.restype = libc.dlsym.restype = c_void_p\n"
        "again = c_void_p(libc.dlmopen(ctypes.c_long(-1), PATH.encode(), 2))\n"
        "make = ctypes.CFUNCTYPE(c_int, c_uint64, c_uint64, c_uint64)\n"
        "other = make(libc.dlsym(again, b'cuMemcpy'))\n"
        "say_when_asked(ctypes.CDLL(PATH).cuMemcpy, other)",
        12,
    ),
    "versions": (
        "libc = ctypes.CDLL(None)\nlibc.dlvsym.restype = c_void_p\nlib = ctypes.CDLL(VERSIONS)\n"
        "find = lambda name: libc.dlvsym(c_void_p(lib._handle), b'cuMemcpy', name)\n"
        "make = ctypes.CFUNCTYPE(c_int, c_uint64, c_uint64, c_uint64)\n"
        "say_when_asked(make(find(b'V1')), make(find(b'V2')))",
        12,
    ),
    "interposed": ("ctypes.CDLL(PATH)\nsay_when_asked(ctypes.CDLL(HOOK).cuMemcpy)", 5),
}  # fmt: skip

# As a tool does whose functions are found before the driver's.
HOOK = """
#include <dlfcn.h>
int cuLaunchKernel(void) { return 0; }
int cuMemcpy(long to, long from, long count)
{
	int (*next)(long, long, long) = dlsym(dlopen(PATH, RTLD_LAZY), "cuMemcpy");

	return next(to, from, count) + !count;
}
"""


@dataclass
class Guised:
    """What each client got, and what the recording of all holds."""

    recording: Recording
    pids: dict[str, int] = field(default_factory=dict)
    answers: dict[str, list[list[int]]] = field(default_factory=dict)


def hooked(place: Path, path: Path) -> Path:
    source = place / "hook.c"
    source.write_text(HOOK.replace("PATH", json.dumps(str(path))))
    library = place / "libhook.so"
    words = ["gcc", "-O2", "-shared", "-fPIC", "-o", library, source]
    subprocess.run(words, check=True)
    return library


@pytest.fixture(scope="module")
def guised(tmp_path_factory: pytest.TempPathFactory) -> Guised:
    place = tmp_path_factory.mktemp("guises")
    functions = {"cuLaunchKernel": FRAME, "cuMemcpy": FRAME}
    driver = build_assembly(place / "built.so", functions)
    versions = build_versions(place / "versions.so")
    with new_cgroup() as cgroup, record(place / "store", "--budget", "off") as recording:
        scripts = {}
        for name, (text, _) in GUISES.items():
            own = place / name
            own.mkdir()
            path = Path(shutil.copy(driver, own / "libcuda.so.1"))
            shutil.copy(driver, own / "libcuda.so.1.new")
            words = f"PATH, VERSIONS = {str(path)!r}, {str(versions)!r}\n"
            if name == "interposed":
                words += f"HOOK = {str(hooked(own, path))!r}\n"
            scripts[name] = Script(cgroup, HEAD + words + text)
        for script in scripts.values():
            script.heard()
        seen = [place / name for name in GUISES if name not in ("in memory", "versions")]
        seen += ["memfd:x", versions, place / "interposed/libhook.so"]
        every = " and ".join(f"libraries like '%{each}%'" for each in seen)
        recording.wait_for(f"select 1 from sessions where {every}", seconds=60)
        done = Guised(recording)
        for name, script in scripts.items():
            script.go_on()
            done.pids[name] = script.pid
            done.answers[name] = script.heard()["answers"]
            script.end()
    return done


@pytest.mark.parametrize("name", GUISES)
def test_each_call_is_one_row(name: str, guised: Guised) -> None:
    _, calls = GUISES[name]
    expected = [list(range(5 + 2 * n)) for n in range(len(guised.answers[name]))]
    if name == "interposed":
        expected[0][0] = 1
    assert guised.answers[name] == expected
    rows = guised.recording.sql(
        f"select result from cuda_events where pid = {guised.pids[name]} and api = 'cuMemcpy' "
        "order by timestamp_ns"
    )
    assert [row["result"] for row in rows] == [each for part in expected for each in part]
    assert len(rows) == calls


def await_report(recording: Recording, path: Path, done: Callable[[dict[str, Any]], bool]) -> None:
    deadline = time.monotonic() + 60 * PATIENCE
    while True:
        (row,) = recording.sql("select libraries from sessions")
        if any(x["path"] == str(path) and done(x) for x in json.loads(row["libraries"])):
            return
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_library_that_is_written_over_harms_nobody_who_loads_it_then(tmp_path: Path) -> None:
    """In the new one the old sites are in the midst of instructions."""
    built = {
        name: build_assembly(tmp_path / f"{name}.so", {"cuLaunchKernel": code, "cuMemcpy": code})
        for name, code in (("old", FRAME), ("new", CONSTANT))
    }
    path = Path(shutil.copy(built["old"], tmp_path / "libcuda.so.1"))
    text = HEAD + f"PATH = {str(path)!r}\n" + LOADED
    with new_cgroup() as cgroup, record(tmp_path / "store", "--budget", "off") as recording:
        first = Script(cgroup, text)
        first.heard()
        recording.wait_for(f"select 1 from sessions where libraries like '%{path}%'")
        first.go_on()
        first.heard()
        first.end()
        (row,) = recording.sql("select libraries from sessions")
        (before,) = [x for x in json.loads(row["libraries"]) if x["path"] == str(path)]
        inode = path.stat().st_ino
        shutil.copyfile(built["new"], path)
        assert path.stat().st_ino == inode
        # Another tracer may have it mapped meanwhile: then it is probed as what it is now.
        await_report(
            recording, path, lambda x: "*" in x["refused"] or x["build_id"] != before["build_id"]
        )
        if another_records():
            pytest.skip("another recorder probes this file, too")
        second = Script(cgroup, text)
        second.heard()
        await_report(recording, path, lambda x: x["attached"] == 2)
        second.go_on()
        assert second.heard()["answers"] == [list(range(5))]
        second.end()
    asked = "select pid, count(*) as n from cuda_events where api = 'cuMemcpy' group by pid"
    seen = {row["pid"]: row["n"] for row in recording.sql(asked)}
    assert (seen.get(first.pid), seen.get(second.pid)) == (5, 5)
