"""Files that somebody writes to while they are probed.

The kernel keeps a probe at its offset in the file, whatever is written there. In the next process
that maps the file it would sit in the midst of other code. So probes go when the first byte comes.
"""

import ctypes
import os
import struct
import threading
from collections.abc import Collection
from typing import Final

_MODIFY: Final = 0x00000002
_ONCE: Final = 0x80000000
_EVENT: Final = struct.Struct("iIII")
_READ_BYTES: Final = 65536

_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.inotify_add_watch.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]


class Rewrites:
    """Watches open files; where the kernel has no room for that, none."""

    def __init__(self) -> None:
        # For poll: readable when a file was written to; negative where there is no watching.
        self.fd: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._watched: set[int] = set()
        self._written: set[int] = set()
        self._lock = threading.Lock()

    def watch(self, fd: int) -> int:
        """Watch an open file; a number for it, negative if it cannot be watched."""
        if self.fd < 0:
            return -1
        path = f"/proc/self/fd/{fd}".encode()
        with self._lock:  # Nobody takes its first event for a stranger's.
            watch = int(_libc.inotify_add_watch(self.fd, path, _MODIFY | _ONCE))
            if watch >= 0:
                self._watched.add(watch)
        return watch

    def forget(self, watch: int) -> None:
        """Watch no more."""
        if watch >= 0:
            _libc.inotify_rm_watch(self.fd, watch)  # It is gone already if the file was written to.
            with self._lock:
                self._watched.discard(watch)
                self._written.discard(watch)

    def written(self, watch: int) -> bool:
        """Whether this file was written to, as far as is known."""
        with self._lock:
            self._read()
            return watch in self._written

    def take(self, watches: Collection[int]) -> set[int]:
        """Which of these files were written to; each is told once."""
        with self._lock:
            self._read()
            found = self._written & set(watches)
            self._written -= found
        return found

    def _read(self) -> None:
        while self.fd >= 0:
            try:
                data = os.read(self.fd, _READ_BYTES)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                watch, mask, _, name_bytes = _EVENT.unpack_from(data, at)
                at += _EVENT.size + name_bytes
                if mask & _MODIFY and watch in self._watched:
                    self._written.add(watch)

    def close(self) -> None:
        """Watch nothing any more."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1
