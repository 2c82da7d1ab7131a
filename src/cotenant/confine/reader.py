"""Giving up everything but reading what is open: for a process that looks into a tenant's file."""

import ctypes
import os
import resource
import signal
import struct
from enum import IntEnum
from pathlib import Path
from typing import Final

from cotenant.confine.libc import LIBC, forgo_new_privileges

_SYS_SECCOMP: Final = 317
_SET_MODE_FILTER: Final = 1
_X86_64: Final = 0xC000003E
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # Of the classic BPF machine.
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050001  # EPERM.
_KILL: Final = 0x80000000
_NUMBER, _ARCHITECTURE = 0, 4


class ReaderCall(IntEnum):
    """All that is left; the numbers are those of x86-64."""

    read = 0
    write = 1
    close = 3
    fstat = 5
    lseek = 8
    mmap = 9
    mprotect = 10
    munmap = 11
    brk = 12
    rt_sigaction = 13
    rt_sigprocmask = 14
    rt_sigreturn = 15
    pread64 = 17
    mremap = 25
    madvise = 28
    exit = 60
    futex = 202
    exit_group = 231
    newfstatat = 262
    getrandom = 318


def bound(memory_bytes: int, cpu_s: int, seconds: float) -> None:
    """Limits that the kernel keeps: of memory beyond what is there, of time on a CPU, of time."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def read_only_what_is_open() -> bool:
    """Refuse every other system call from now on; false where the kernel cannot."""
    if os.uname().machine != "x86_64":
        return False
    calls = [int(call) for call in ReaderCall]
    program = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _X86_64),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        *((_EQUAL, len(calls) - at, 0, number) for at, number in enumerate(calls)),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    filter_ = ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)), 16
    )
    forgo_new_privileges()
    return not LIBC.syscall(_SYS_SECCOMP, _SET_MODE_FILTER, 0, filter_)
