"""Capabilities: which ones a process keeps, and whether something works with those alone."""

import ctypes
import os
import resource
import struct
from collections.abc import Callable, Collection
from enum import IntEnum
from pathlib import Path
from typing import Final

from cotenant.confine.libc import LIBC, forgo_new_privileges
from cotenant.errors import Unsupported

_PR_CAPBSET_DROP: Final = 24
_PR_CAP_AMBIENT: Final = 47
_PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
_SYS_CAPSET: Final = 126
_CAPABILITY_VERSION_3: Final = 0x20080522


def need_root() -> None:
    """One clear word instead of a failing system call."""
    if os.geteuid() != 0:
        raise Unsupported("recording needs root; use sudo (reading a store does not)")


class Capability(IntEnum):
    """Those that a process of ours may keep; the numbers are the kernel's."""

    DAC_READ_SEARCH = 2  # Files of tenants below /proc/PID/root, whatever their mode.
    SETUID = 7  # To abort a FUSE connection with the rights of its owner.
    SYS_PTRACE = 19  # To look below /proc/PID/root at all.
    SYS_ADMIN = 21  # Only where the kernel has no other key to what is needed.
    SYS_NICE = 23  # To place probes in time on a busy host.
    PERFMON = 38
    BPF = 39
    CHECKPOINT_RESTORE = 40  # Files by /proc/PID/map_files, though deleted.


def allow_descriptors(number: int) -> None:
    """Raise the limit on open files to this, or as far as allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or soft >= number:
        return
    for most in (number, hard):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, max(most, hard)))
        except (OSError, ValueError):
            continue
        return


def drop_capabilities(keep: Collection[Capability] = ()) -> None:
    """Keep these capabilities, and no way to get another one back."""
    bound_capabilities(keep)
    limit_capabilities(keep)


def bound_capabilities(keep: Collection[Capability]) -> None:
    """No program that is run from now on gets any other; as far as we may decide that."""
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    LIBC.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(last + 1):
        if capability not in keep:
            LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    forgo_new_privileges()


def limit_capabilities(keep: Collection[Capability]) -> None:
    """This thread has these, as far as it had them, and no others."""
    bits = sum(1 << capability for capability in keep) & _permitted()
    low, high = bits & 0xFFFFFFFF, bits >> 32
    header = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITY_VERSION_3, 0), 8)
    wanted = ctypes.create_string_buffer(struct.pack("6I", low, low, 0, high, high, 0), 24)
    if LIBC.syscall(_SYS_CAPSET, header, wanted):
        number = ctypes.get_errno()
        raise Unsupported(f"cannot drop capabilities: {os.strerror(number)}")


def works_with(capabilities: Collection[Capability], attempt: Callable[[], object]) -> bool:
    """Whether something can be done with these capabilities alone: a child tries it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            drop_capabilities(capabilities)
            attempt()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _permitted() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapPrm:"):
            return int(line.split()[1], 16)
    return 0
