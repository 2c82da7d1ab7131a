"""Garbage from tenants: a row with NULLs, a counted reason or a refusal; no crash, no hang."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.kernel.compiler import build_library
from tests.kernel.conftest import SIM, Cgroup, Recording, record
from tests.kernel.prototypes import PROTOTYPES
from tests.kernel.script import Script, warm

CALLS = "for _ in range(7):\n    lib.cuLaunchKernel(None, *[c_uint(1)] * 7, None, None, None)\n"
WILD = 0xFFFF_8000_1234_5000  # An address that no process can read.

GARBAGE = f"""
lib = ctypes.CDLL(PATH)
say(ready=1)
wait()
wild = c_void_p({WILD})
def make(name, *args):
    return getattr(lib, name)(*args)
# Unreadable structs, arrays, results and names.
make("cuLaunchKernelEx", wild, c_void_p(5), None, None)
make("cuMemcpy2D_v2", wild)
make("cuMemcpyBatchAsync_v2", None, None, wild, c_uint64(3), None, None, c_uint64(0), None)
make("cuMemcpyBatchAsync_v2", None, None, wild, c_uint64(1 << 60), None, None, c_uint64(0), None)
make("cuMemAlloc_v2", wild, c_uint64(1009))
make("cuModuleGetFunction", wild, None, wild)
make("cuGraphAddKernelNode_v2", wild, None, None, c_uint64(0), wild)
make("cuDeviceGetUuid_v2", wild, 0)
# Absurd sizes, and a handle that nobody has seen.
make("cuMemAlloc_v2", byref(c_uint64(77)), c_uint64((1 << 64) - 1))
make("cuMemcpyHtoD_v2", c_void_p(1), c_void_p(2), c_uint64(1 << 63))
make("cuMemcpyHtoD_v2", c_void_p(1), c_void_p(2), c_uint64(1 << 46))
make("cuMemcpyHtoD_v2", c_void_p(1), c_void_p(2), c_uint64((1 << 46) - 1))
make("cuLaunchKernel", wild, *[c_uint(0xffffffff)] * 7, None, None, None)
make("cuGraphLaunch", wild, None)
make("cuMemFree_v2", wild)
say(done=1)
"""


def rows_of(recording: Recording, pid: int) -> list[dict]:
    return recording.sql(
        "select api, bytes, stream, direction, grid_x, kernel_name from cuda_events "
        f"where pid = {pid} order by timestamp_ns"
    )


def test_garbage_becomes_rows_with_nulls_and_counted_reasons(
    cgroup: Cgroup, store: Path, tmp_path: Path
) -> None:
    library = build_library(
        tmp_path / "libcuda.so.1", [s for s in PROTOTYPES if not s.startswith(("cuda", "__"))]
    )
    with record(store) as recording:
        script = Script(cgroup, GARBAGE.replace("PATH", repr(str(library))))
        script.heard()
        recording.wait_probed(library)
        script.go_on()
        assert script.heard() == {"done": 1}
        script.end()
    rows = rows_of(recording, script.pid)
    assert [(r["api"], r["bytes"], r["direction"], r["grid_x"]) for r in rows] == [
        ("cuLaunchKernelEx", None, None, None),
        ("cuMemcpy2D_v2", None, None, None),
        ("cuMemcpyBatchAsync_v2", None, None, None),
        ("cuMemcpyBatchAsync_v2", None, None, None),
        ("cuMemAlloc_v2", 1009, None, None),
        ("cuMemAlloc_v2", None, None, None),
        ("cuMemcpyHtoD_v2", None, "HtoD", None),
        ("cuMemcpyHtoD_v2", None, "HtoD", None),
        ("cuMemcpyHtoD_v2", (1 << 46) - 1, "HtoD", None),
        ("cuLaunchKernel", None, None, -1),
        ("cuGraphLaunch", None, None, None),
        ("cuMemFree_v2", None, None, None),
    ]
    named = {r["kernel_name"] for r in rows if r["api"].startswith("cuLaunch")}
    assert all(name.startswith("unknown@") for name in named)
    notes = json.loads(recording.sql("select notes from sessions")[0]["notes"])
    assert notes["unreadable"] >= 6


def test_a_library_that_is_none_is_let_alone(cgroup: Cgroup, store: Path, tmp_path: Path) -> None:
    """Files that a search finds by name: text, an empty file, a cut one, a pipe, a loop."""
    names = {"libcuda.so.1": b"cuLaunchKernel\0" * 1000, "libcudart.so.12": b"", "x": b"\x7fELF"}
    for name, data in names.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "libnccl.so.2").symlink_to("libnccl.so.2")
    with record(store) as recording:
        warm(recording, cgroup)
        script = Script(cgroup, "say(done=1)\nwait()\n", LD_LIBRARY_PATH=str(tmp_path / "none"))
        # The stand-in cannot be found there: the client ends, and the recording goes on.
        script.end(1)
        again = Script(
            cgroup,
            "context, module = start()\n"
            "launch(out('cuModuleGetFunction', module, b'k'), times=3)\nsay(done=1)\n",
        )
        assert again.heard() == {"done": 1}
        again.end()
    rows = recording.sql(f"select count(*) as n from cuda_events where pid = {again.pid}")
    assert rows == [{"n": 3}]


HOARD = """
for path in json.loads(PATHS):
    ctypes.CDLL(path)
say(done=1)
wait()
"""
# In a namespace of its own: mounts that nobody can look at in time, and ever new programs.
MOUNTS = """
mkdir -p $0/m && mount -t tmpfs none $0/m && cd $0/m || exit
for n in $(seq 307); do mkdir $n; mount --bind . $n; done
for n in $(seq 101); do /bin/true; done
echo '{"done": 1}'
exec cat
"""


def test_a_tenant_that_brings_files_without_end_takes_no_probe_from_his_neighbour(
    cgroups: Callable[[], Cgroup], store: Path, tmp_path: Path
) -> None:
    storm, calm = cgroups(), cgroups()
    library = build_library(tmp_path / "libcuda.so.1", ["cuLaunchKernel"])
    (tmp_path / "copies").mkdir()  # Where a job has its libraries, all are looked at.
    copies = [shutil.copy(library, tmp_path / f"copies/libcuda.so.{n}") for n in range(100, 359)]
    own = shutil.copy(library, tmp_path / "libcuda.so.3")
    with record(store) as recording:
        warm(recording, calm)
        # Nothing else is to be found where it was told to look.
        (tmp_path / "driver").mkdir()
        for name in ("libcuda.so.1", "libsimdevice.so"):
            (tmp_path / "driver" / name).symlink_to(SIM / name)
        text = HOARD.replace("PATHS", repr(json.dumps(list(map(str, copies)))))
        hoard = Script(storm, text, LD_LIBRARY_PATH=str(tmp_path / "driver"))
        mounts = storm.popen(
            ["unshare", "-Urm", "sh", "-c", MOUNTS, tmp_path], stdin=subprocess.PIPE
        )
        assert hoard.heard() == {"done": 1}
        script = Script(calm, f"lib = ctypes.CDLL({str(own)!r})\nsay(ready=1)\nwait()\n" + CALLS)
        script.heard()
        recording.wait_probed(own)
        script.go_on()
        script.end()
        assert json.loads(mounts.stdout.readline()) == {"done": 1}
        recording.wait_told("select 1 from sessions where notes like '%\"mounts\":%'")
        mounts.communicate(timeout=60)
        told = json.dumps({"libraries": {f"/{storm.name}": len(copies) - 256}})
        recording.wait_told(f"select 1 from sessions where notes like '%{told[1:-1]}%'")
        hoard.go_on()
        hoard.end()
    rows = recording.sql(f"select count(*) as n from cuda_events where pid = {script.pid}")
    assert rows == [{"n": 7}]
    notes = json.loads(recording.sql("select notes from sessions")[0]["notes"])
    assert notes["passed_over"]["mounts"][f"/{storm.name}"] >= 307 - 256


def test_a_page_that_nobody_serves_holds_up_neither_client_nor_recording(
    cgroup: Cgroup, store: Path
) -> None:
    """A name in memory registered with userfaultfd: reading it would wait for ever."""
    with record(store) as recording:
        warm(recording, cgroup, "libcudart.so.12")
        script = Script(
            cgroup,
            """
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = c_void_p
uffd = libc.syscall(323, os.O_CLOEXEC | os.O_NONBLOCK)
assert uffd >= 0, os.strerror(ctypes.get_errno())
import fcntl
fcntl.ioctl(uffd, 0xC018AA3F, struct.pack("<QQQ", 0xAA, 0, 0))
at = libc.mmap(None, c_uint64(8192), 3, 0x22, -1, c_uint64(0))
fcntl.ioctl(uffd, 0xC020AA00, struct.pack("<QQQQ", at, 8192, 1, 0))
runtime = ctypes.CDLL("libcudart.so.12")

def register():
    # Never returns: the library itself waits for the page.
    runtime["__cudaRegisterFunction"](None, c_void_p(0x10000), c_void_p(at), c_void_p(at), -1,
                                      None, None, None, None, None)

threading.Thread(target=register, daemon=True).start()
time.sleep(0.5)
context, module = start()
launch(out("cuModuleGetFunction", module, b"goes_on"), times=7)
say(done=1)
wait()
os._exit(0)
""",
        )
        assert script.heard() == {"done": 1}
        recording.wait_for(
            f"select 1 from cuda_events where pid = {script.pid} and kernel_name = 'goes_on'"
        )
        recording.stop()
        script.go_on()
        script.end()
    rows = recording.sql(
        f"select count(*) as n from cuda_events where pid = {script.pid} and op = 'launch'"
    )
    assert rows == [{"n": 7}]
