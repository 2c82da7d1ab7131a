"""Refuses system calls that a recording never makes, in case an attacker runs code in it."""

import ctypes
import os
import struct
from enum import IntEnum
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
    """What the recorder leaves to its helper; what it talks to was connected before."""

    socket = 41
    connect = 42
    accept = 43
    bind = 49
    listen = 50
    accept4 = 288
    perf_event_open = 298
    process_vm_readv = 310


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


def _program(refused: list[int], *, maps_only: bool) -> list[tuple[int, int, int, int]]:
    """Instructions: code, jump if true, jump if false, value."""
    checks = [(_EQUAL, len(refused) - at, 0, number) for at, number in enumerate(refused)]
    tail = [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    head = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _X86_64),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _REFUSE),
    ]
    if not maps_only:
        return [*head, *checks, *tail]
    commands = [
        (_EQUAL, len(_MAP_COMMANDS) - at, 0, command) for at, command in enumerate(_MAP_COMMANDS)
    ]
    bpf = [
        (_EQUAL, 0, len(commands) + 3, _BPF),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        *commands,
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return [*head, *bpf, *checks, *tail]


def refuse_calls(*, recorder: bool) -> bool:
    """Refuse them in every thread from now on; false where the kernel cannot."""
    refused = [int(call) for call in (*Call, *(RecorderCall if recorder else HelperCall))]
    program = _program(refused, maps_only=recorder)
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    filter_ = ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)), 16
    )
    if os.uname().machine != "x86_64":
        return False
    forgo_new_privileges()
    return not LIBC.syscall(_SYS_SECCOMP, _SET_MODE_FILTER, _ALL_THREADS, filter_)
