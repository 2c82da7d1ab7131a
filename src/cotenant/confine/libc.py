"""The C library, and the promise that a process must make before it may confine itself."""

import ctypes
from typing import Final

LIBC: Final = ctypes.CDLL(None, use_errno=True)
_PR_SET_NO_NEW_PRIVS: Final = 38


def forgo_new_privileges() -> None:
    """Never gain rights by running another program: set-user-ID bits count no more."""
    LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
