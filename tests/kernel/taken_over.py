"""A recorder that somebody has taken over: the real command, until its probes are attached.

Then, in the place of its loop, what an attacker would try from inside. For each attempt it prints
whether it was refused, by which error, or what came of it.
"""

import ctypes
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cotenant.agent.process import Nameless, Process
from cotenant.agent.protocol.reports import DevicesFound, Inspected, KernelsFound
from cotenant.agent.protocol.requests import Inspect
from cotenant.agent.recorder import main as recorder
from cotenant.views.cli import main

_ANSWER_S = 20
_REFUSED = 77
FDS = Path("/proc/self/fd")
# By their numbers on x86-64.
_TGKILL, _PTRACE, _BPF, _UNSHARE, _MOUNT = 234, 101, 321, 272, 165
_ATTACH, _PROGRAM_LOAD, _NEW_USER = 16, 5, 0x10000000
_libc = ctypes.CDLL(None, use_errno=True)


def _tried(attempt: Callable[[], object]) -> str:
    """What came of it: the name of the error, or the result."""
    try:
        return f"done: {attempt()!r}"
    except Exception as error:  # noqa: BLE001 - whatever it is, it was refused
        return type(error).__name__


def _ask_about(taken: Any, target: dict[str, Any]) -> dict[str, str]:
    """What the helper tells about a process that never called a GPU library."""
    process = Process(target["pid"], target["start_ns"])
    ask = Inspect(7, (process,), (Nameless(process, 0, target["function"]),))
    taken._helper.ask(ask)
    assert taken._helper.hear_until(Inspected(7), _ANSWER_S)
    told = taken._helper.take()
    mps = [report.mps for report in told if isinstance(report, DevicesFound)]
    named = [k.name for report in told if isinstance(report, KernelsFound) for k in report.kernels]
    return {"a foreign process's surroundings": str(mps), "a foreign process's code": str(named)}


def _attempts(taken: Any, target: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """What an attacker could gain from, by what it is called; all with what is imported by now."""
    foreign, helper, secret = target["pid"], taken._helper._process.pid, target["secret"]
    beside = taken.store.parent if taken.store.parent != FDS else taken.store / ".."
    return {
        "read a file of root's": lambda: os.open(secret, os.O_RDONLY),
        "read the passwords": lambda: os.open("/etc/shadow", os.O_RDONLY),
        "read a file of everybody's": lambda: os.open("/etc/passwd", os.O_RDONLY),
        "list what is beside the store": lambda: os.listdir(beside),
        "list processes": lambda: os.listdir("/proc"),
        "read a foreign process's memory": lambda: os.open(f"/proc/{foreign}/mem", os.O_RDONLY),
        "read the helper's surroundings": lambda: os.open(f"/proc/{helper}/environ", os.O_RDONLY),
        "write to a file of root's": lambda: os.open(secret, os.O_WRONLY),
        "write beside the store": lambda: os.open(beside / "new", os.O_CREAT | os.O_WRONLY),
        "write to /tmp": lambda: os.open("/tmp/new", os.O_CREAT | os.O_WRONLY),
        "remove a file of root's": lambda: os.unlink(secret),
        "signal a foreign process": lambda: os.kill(foreign, 0),
        "signal the helper": lambda: os.kill(helper, 0),
        "signal one's own user": lambda: os.kill(-1, 0),
        "signal a thread": lambda: _call(_TGKILL, foreign, foreign, 0),
        "signal by a descriptor": lambda: signal.pidfd_send_signal(os.pidfd_open(foreign), 0),
        "run a program": lambda: os.posix_spawn("/bin/true", ["true"], {}),
        "run a program from memory": lambda: _run_memory(),
        "be root": lambda: os.setuid(0),
        "be root's group": lambda: os.setgroups([0]),
        "trace a foreign process": lambda: _call(_PTRACE, _ATTACH, foreign, 0, 0),
        "load a program into the kernel": lambda: _call(_BPF, _PROGRAM_LOAD, 0, 0),
        "make a namespace": lambda: _call(_UNSHARE, _NEW_USER),
        "open a connection": lambda: socket.socket(),
        "mount": lambda: _call(_MOUNT, 0, 0, 0, 0, 0),
        "import what is not there": lambda: __import__("ftplib"),
    }


def _call(number: int, *words: int) -> int:
    """A system call by its number."""
    if (result := _libc.syscall(number, *words)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(result)


def _run_memory() -> None:
    """In a child: if it works, this program is gone."""
    if child := os.fork():
        status = os.waitpid(child, 0)[1]
        if os.waitstatus_to_exitcode(status) == _REFUSED:
            raise PermissionError("the child may not")
        return
    file = os.memfd_create("program")
    os.write(file, b"#!/bin/true\n")
    try:
        os.execve(file, ["true"], {})
    finally:
        os._exit(_REFUSED)


def _attack(taken: Any, *_: object) -> None:
    target = json.loads(os.environ["TARGET"])
    found = {what: _tried(attempt) for what, attempt in _attempts(taken, target).items()}
    print(json.dumps(found | _ask_about(taken, target)), flush=True)
    taken._finish()


if __name__ == "__main__":
    recorder.Recorder.run = _attack  # type: ignore[method-assign]
    sys.exit(main(["record", "--quiet", *sys.argv[1:]]))
