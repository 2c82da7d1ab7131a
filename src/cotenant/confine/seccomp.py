"""Refuses system calls that a process of ours never makes, in case an attacker runs code in it."""

import ctypes
import os
import struct
from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import Final

from cotenant.confine.libc import LIBC, forgo_new_privileges

_SYS_SECCOMP: Final = 317
_SET_MODE_FILTER: Final = 1
_ALL_THREADS: Final = 1

_X86_64: Final = 0xC000003E
_X32: Final = 0x40000000  # The same calls once more, under numbers from here on.
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # Of the classic BPF machine.
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050001  # EPERM.
_KILL: Final = 0x80000000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16

_LATE: Final = 335, 424  # Numbers that were free until the kernel came to need some for itself.
_TGKILL: Final = 234
_BPF: Final = 321
# Of bpf(2): look at maps and change them, by one key or in batches; run an iterator it was given.
_MAP_COMMANDS: Final = (1, 2, 3, 4, 24, 25, 26, 27, 33)


class Call(IntEnum):
    """What neither process ever does once it runs; the numbers are those of x86-64."""

    ptrace = 101
    pivot_root = 155
    adjtimex = 159
    chroot = 161
    acct = 163
    settimeofday = 164
    mount = 165
    umount2 = 166
    swapon = 167
    swapoff = 168
    reboot = 169
    sethostname = 170
    iopl = 172
    ioperm = 173
    init_module = 175
    delete_module = 176
    clock_settime = 227
    kexec_load = 246
    add_key = 248
    request_key = 249
    keyctl = 250
    unshare = 272
    open_by_handle_at = 304
    setns = 308
    process_vm_writev = 311
    finit_module = 313
    kexec_file_load = 320
    userfaultfd = 323
    io_uring_setup = 425
    open_tree = 428
    move_mount = 429
    fsopen = 430
    fsconfig = 431
    fsmount = 432
    fspick = 433
    pidfd_getfd = 438
    mount_setattr = 442
    # Whose a file is and who may use it; Landlock leaves that open.
    chmod = 90
    fchmod = 91
    chown = 92
    fchown = 93
    lchown = 94
    setxattr = 188
    lsetxattr = 189
    fsetxattr = 190
    removexattr = 197
    lremovexattr = 198
    fremovexattr = 199
    fchownat = 260
    fchmodat = 268
    fchmodat2 = 452


class RecorderCall(IntEnum):
    """What the recorder leaves to its helper; what it talks to was connected before.

    It signals nobody but its own threads.
    """

    kill = 62
    tkill = 200
    rt_sigqueueinfo = 129
    rt_tgsigqueueinfo = 297
    pidfd_send_signal = 424
    socket = 41
    connect = 42
    accept = 43
    bind = 49
    listen = 50
    accept4 = 288
    perf_event_open = 298
    process_vm_readv = 310


class ProgramCall(IntEnum):
    """To run another program."""

    execve = 59
    execveat = 322


class HelperCall(IntEnum):
    """What the helper leaves to the recorder, which alone has a store.

    Landlock would hide other processes from it: their root directories, which it is there for.
    """

    truncate = 76
    rename = 82
    mkdir = 83
    rmdir = 84
    creat = 85
    link = 86
    unlink = 87
    symlink = 88
    mknod = 133
    mkdirat = 258
    mknodat = 259
    unlinkat = 263
    renameat = 264
    linkat = 265
    symlinkat = 266
    renameat2 = 316


class Role(Enum):
    """A process of ours, by the calls that it never makes."""

    HELPER = (*Call, *HelperCall)
    RECORDER = (*Call, *RecorderCall, *ProgramCall)
    DEMANGLER = (*Call, *RecorderCall)  # It may run a program that demangles.


_Instruction = tuple[int, int, int, int]  # Code, jump if true, jump if false, value.


def _only(call: int, arguments: Sequence[int]) -> list[_Instruction]:
    """Allow a call with one of these as its first argument alone; others go on with the number."""
    checks = [(_EQUAL, len(arguments) - at, 0, each) for at, each in enumerate(arguments)]
    return [
        (_EQUAL, 0, len(checks) + 3, call),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        *checks,
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _program(role: Role) -> list[_Instruction]:
    refused = [int(call) for call in role.value]
    head = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _X86_64),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _REFUSE),
    ]
    if role is not Role.HELPER:
        head += [*_only(_BPF, _MAP_COMMANDS), *_only(_TGKILL, [os.getpid()])]
    checks = [(_EQUAL, len(refused) - at, 0, number) for at, number in enumerate(refused)]
    return [*head, *checks, (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]


def refuse_calls(role: Role) -> bool:
    """Refuse them in every thread from now on; false where the kernel cannot."""
    return _install(_program(role))


def refuse_late_calls() -> bool:
    """Refuse what runtimes of containers did not know for long; false where the kernel cannot."""
    return _install(
        [
            (_LOAD, 0, 0, _NUMBER),
            (_AT_LEAST, 0, 2, _LATE[0]),
            (_AT_LEAST, 1, 0, _LATE[1]),
            (_RETURN, 0, 0, _REFUSE),
            (_RETURN, 0, 0, _ALLOW),
        ]
    )


def _install(program: Sequence[_Instruction]) -> bool:
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    filter_ = ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)), 16
    )
    if os.uname().machine != "x86_64":
        return False
    forgo_new_privileges()
    return not LIBC.syscall(_SYS_SECCOMP, _SET_MODE_FILTER, _ALL_THREADS, filter_)
