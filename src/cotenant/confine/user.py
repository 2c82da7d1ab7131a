"""The user that a recorder is once it has started: nobody in particular, and never root."""

import ctypes
import os
import pwd
from collections.abc import Collection
from typing import Final, NamedTuple, Self

from cotenant.confine.capabilities import Capability, bound_capabilities, limit_capabilities
from cotenant.confine.libc import LIBC
from cotenant.errors import Unsupported, UsageError

NAME: Final = "cotenant"
# Ours wherever we make the user, and where nobody did. systemd leaves 65520 to 65533 unused; no
# range of container runtimes, Kubernetes or subordinate users has them.
USER_ID: Final = 65520

_PR_SET_DUMPABLE: Final = 4
_PR_SET_KEEPCAPS: Final = 8


class RecorderUser(NamedTuple):
    """A user by its numbers; without a name where the host has none for it."""

    uid: int
    gid: int
    name: str | None = None

    @classmethod
    def chosen(cls, asked: str | None) -> Self:
        """The user asked for by name or number; else cotenant, or its number alone."""
        number = int(asked) if asked and asked.isascii() and asked.isdecimal() else None
        found = _found(asked or NAME, number)
        if found is not None:
            user = cls(found.pw_uid, found.pw_gid, found.pw_name)
        elif asked is None:
            user = cls(USER_ID, USER_ID)
        elif number is not None and number < 1 << 31:
            user = cls(number, number)
        else:
            raise UsageError(f"--user {asked}: no such user; create it, or name another")
        if user.uid == 0 or user.gid == 0:
            raise UsageError(f"--user {asked or NAME}: it has root's rights; name another")
        return user

    def __str__(self) -> str:
        return self.name or f"user {self.uid}"


def _found(name: str, number: int | None) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name) if number is None else pwd.getpwuid(number)
    except (KeyError, OverflowError):
        return None


def become(user: RecorderUser, keep: Collection[Capability] = ()) -> None:
    """Be this user for good, in every thread, with these capabilities alone."""
    bound_capabilities(())
    LIBC.prctl(_PR_SET_KEEPCAPS, int(bool(keep)), 0, 0, 0)
    try:
        os.setgroups([])
        os.setresgid(user.gid, user.gid, user.gid)
        os.setresuid(user.uid, user.uid, user.uid)
    except PermissionError:
        raise Unsupported(
            f"cannot become {user}: give CAP_SETUID and CAP_SETGID, see deploy/README.md"
        ) from None
    limit_capabilities(keep)
    # Processes of the same user may not look into this one.
    if LIBC.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise Unsupported(f"cannot hide from {user}: {os.strerror(ctypes.get_errno())}")
