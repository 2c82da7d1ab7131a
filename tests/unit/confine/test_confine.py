"""What a recorder and its helper can still do to files, calls and connections."""

import errno
import subprocess
import sys

import pytest

from cotenant.confine.seccomp import Role

_BEGIN = """
import ctypes, errno, os, sys
from pathlib import Path
from cotenant.confine.landlock import confine
from cotenant.confine.seccomp import Role, refuse_calls
libc = ctypes.CDLL(None, use_errno=True)
def made(number, *words):
    return 0 if libc.syscall(number, *words) >= 0 else ctypes.get_errno()
def refused(function, *words):
    try:
        function(*words)
    except OSError as error:
        return error.errno
    return 0
"""


def confined(script, *words):
    """What a child prints; it makes its own bed and lies in it."""
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN + script, *map(str, words)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


@pytest.mark.parametrize("role", list(Role), ids=[role.name for role in Role])
def test_calls_that_are_never_made_are_refused(role):
    script = """
if not refuse_calls(Role[sys.argv[1]]):
    sys.exit("no seccomp")
for number in sys.argv[2:]:
    print(made(int(number), -1, -1, -1, -1, -1))
"""
    assert confined(script, role.name, *map(int, role.value)) == [errno.EPERM] * len(role.value)


def test_calls_have_no_second_number():
    script = """
refuse_calls(Role.RECORDER)
print(made(39 + 0x40000000), made(101 + 0x40000000, -1), made(39))
"""
    assert confined(script) == [errno.EPERM, errno.EPERM, 0]


def test_a_recorder_signals_its_own_threads_alone():
    script = """
import signal, threading
refuse_calls(Role.RECORDER)
tgkill = 234
heard = []
signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
print(made(tgkill, os.getpid(), threading.get_native_id(), signal.SIGUSR1), len(heard))
print(made(tgkill, os.getppid(), os.getppid(), 0), refused(os.kill, os.getpid(), 0))
"""
    assert confined(script) == [0, 1, errno.EPERM, errno.EPERM]


def test_one_who_demangles_runs_programs_of_the_system_and_no_others(tmp_path):
    own = tmp_path / "own"
    own.write_text("#!/bin/true\n")
    own.chmod(0o755)
    script = """
def runs(path):
    child = os.posix_spawn(path, [path], {})
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
from cotenant.agent.recorder.processes import demangler
if not confine(run=demangler._PROGRAMS) or not refuse_calls(Role.DEMANGLER):
    sys.exit("not confined")
print(runs("/bin/true"), refused(runs, sys.argv[1]), refused(os.open, "/etc/passwd", os.O_RDONLY))
"""
    assert confined(script, own) == [0, errno.EACCES, errno.EACCES]


def test_a_recorder_changes_nothing_outside_its_store(tmp_path):
    store, outside = tmp_path / "store", tmp_path / "outside"
    store.mkdir()
    outside.write_text("precious")
    outside.chmod(0o600)
    script = """
store, outside = map(Path, sys.argv[1:])
(store / "inside").write_text("inside")
held = os.open(outside, os.O_RDONLY)
if not confine(write=[store], read=[Path("/etc/hostname")]) or not refuse_calls(Role.RECORDER):
    sys.exit("not confined")
print(refused(os.truncate, outside, 0), refused(os.unlink, outside))
print(refused(os.chmod, outside, 0o666), refused(os.fchmod, held, 0o666))
print(refused(os.chown, outside, 1, 1), refused(outside.write_text, "gone"))
print(refused(os.truncate, store / "inside", 3), refused(os.unlink, store / "inside"))
print(refused(outside.read_text), refused(os.listdir, store / ".."), refused(os.listdir, store))
print(refused(os.open, "/etc/hostname", os.O_RDONLY), refused(os.open, "/etc/hostname", os.O_RDWR))
"""
    no = errno.EACCES
    perm = errno.EPERM
    found = confined(script, store, outside)
    assert found == [no, no, perm, perm, perm, no, 0, 0, no, no, 0, 0, no]
    assert outside.read_text() == "precious"


def test_a_store_is_written_merged_and_folded_with_what_a_recorder_may(tmp_path):
    script = """
import pyarrow as pa
from cotenant.store.compaction import Compactor
from cotenant.store.folding import Folding
from cotenant.store.graveyard import GRACE_NS
from cotenant.store.writer import StoreWriter
import cotenant.agent.recorder.sandbox
writer = StoreWriter(sys.argv[1], node="a", boot_id="b")
os.umask(0o027)
sys.meta_path.clear()
if not confine(write=[writer.root]) or not refuse_calls(Role.RECORDER):
    sys.exit("not confined")
row = {"pid": 1, "tid": 1, "cgroup_id": 7, "comm": "a", "op": "launch", "api": "cuLaunchKernel",
       "kernel_name": "k", "duration_ns": 1, "weight": 1}
now = 1_790_000_000_000_000_000
for number in range(101):
    rows = pa.Table.from_pylist([row | {"timestamp_ns": now + number}])
    writer.append("cuda_events", rows)
    writer.seal(now)
summed = {"cgroup_id": 7, "family": "cuda", "op": "launch", "name": "k", "count": 1}
writer.append("rollups", pa.Table.from_pylist(2 * [summed | {"timestamp_ns": now}]))
writer.seal(now)
print(int(Folding(writer).step(now + 86_400_000_000_000)))
compactor = Compactor(writer, share=1e9)
while compactor.step(now + 2 * 86_400_000_000_000):
    pass
print(sum(s.rows for s in writer.segments), len(writer.segments))
files = [f for f in writer.root.rglob("*") if f.is_file() and not f.name.startswith(".lock")]
print(*{f.stat().st_mode & 0o777 for f in files})
"""
    assert confined(script, tmp_path / "store") == [1, 102, 2, 0o640]


def test_a_recorder_has_names_demangled_that_runs_no_program_any_more():
    script = """
from cotenant.agent.recorder.processes import demangle
from cotenant.agent.process import Process
from cotenant.confine.user import RecorderUser
demangle.start(RecorderUser(65520, 65520))
confine()
refuse_calls(Role.RECORDER)
bomb = "_Z1f1aIiiE" + "".join(f"1aIS{p}_S{p}_E" for p in "02468ACEGIKMOQSUWY") * 2
for name in ("_Z4gemmi", bomb, "_Z4gemmi"):
    print(int(demangle.Demangler().readable(name, Process(7, 1000)) == "gemm(int)"))
print(refused(os.posix_spawn, "/bin/true", ["true"], {}))
demangle._child.close()
"""
    assert confined(script) == [1, 0, 1, errno.EPERM]


def test_the_helper_still_asks_programs_and_sockets(tmp_path):
    passwd = tmp_path / "passwd"
    passwd.write_text("")
    script = """
import socket
from cotenant.identity.runtimes.users import UserSource
refuse_calls(Role.HELPER)
print(int(UserSource(passwd=Path(sys.argv[1])).name_of(0) == "root"))
socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).close()
"""
    assert confined(script, passwd) == [1]
