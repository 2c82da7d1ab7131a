"""System calls that a recording never makes: refused, whoever gets to run code in it."""

import ctypes
import os
import struct
from enum import IntEnum
from typing import Final

_libc: Final = ctypes.CDLL(None, use_errno=True)
_SYS_SECCOMP: Final = 317
_SET_MODE_FILTER: Final = 1
_ALL_THREADS: Final = 1
_PR_SET_NO_NEW_PRIVS: Final = 38

_X86_64: Final = 0xC000003E
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # Of the classic BPF machine.
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


class RecorderCall(IntEnum):
    """What the recorder leaves to its helper."""

    perf_event_open = 298
    process_vm_readv = 310


def _program(refused: list[int], *, maps_only: bool) -> list[tuple[int, int, int, int]]:
    """Instructions: code, jump if true, jump if false, value."""
    checks = [(_EQUAL, len(refused) - at, 0, number) for at, number in enumerate(refused)]
    tail = [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REFUSE)]
    head = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _X86_64),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
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
    refused = [int(call) for call in Call]
    if recorder:
        refused += [int(call) for call in RecorderCall]
    program = _program(refused, maps_only=recorder)
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    filter_ = ctypes.create_string_buffer(
        struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code)), 16
    )
    if os.uname().machine != "x86_64":
        return False
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return not _libc.syscall(_SYS_SECCOMP, _SET_MODE_FILTER, _ALL_THREADS, filter_)
