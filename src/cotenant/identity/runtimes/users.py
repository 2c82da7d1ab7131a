"""Names of users, from the host's user database.

A database over the network may take forever: ``getent`` is asked in a process of its
own, under a time limit.
"""

from pathlib import Path
from typing import Final

from cotenant.identity.naming.names import Names, clean
from cotenant.identity.path.model import Identity, Owner
from cotenant.identity.runtimes.source import Absent, Source, ask_program

PASSWD: Final = Path("/etc/passwd")
_PASSWD_MAX: Final = 1 << 20


class UserSource(Source):
    """User ids to names, remembered for the life of the agent."""

    name = "users"

    def __init__(self, passwd: Path = PASSWD, *, getent: str | None = "getent") -> None:
        super().__init__()
        self.where = str(passwd)
        self._passwd = passwd
        self._getent = getent
        self._known: dict[int, str] = {}

    def serves(self, identity: Identity) -> bool:
        """Users' slices, and jobs whose path tells the user."""
        if identity.owner is Owner.USER:
            return True
        return bool(identity.job and identity.job.slurm_uid is not None)

    def ask(self, identity: Identity, path: str) -> Names | None:
        """The name of the user that the path tells."""
        del path
        uid = identity.user_uid
        if uid is None and identity.job:
            uid = identity.job.slurm_uid
        name = self.name_of(uid) if uid is not None else None
        return Names(self.name, user=name) if name else None

    def name_of(self, uid: int) -> str | None:
        """A user's name; None if the host knows no such user."""
        if uid not in self._known:
            name = self._in_file(uid) or self._by_getent(uid)
            if name is None:
                return None
            self._known[uid] = name
        return self._known[uid]

    def _in_file(self, uid: int) -> str | None:
        with self._passwd.open("r", encoding="utf-8", errors="replace") as file:
            lines = file.read(_PASSWD_MAX).splitlines()
        for line in lines:
            fields = line.split(":")
            if len(fields) > 2 and fields[2] == str(uid):
                return clean(fields[0])
        return None

    def _by_getent(self, uid: int) -> str | None:
        if self._getent is None:
            return None
        try:
            printed = ask_program(self._getent, "passwd", str(uid))
        except Absent:
            return None
        return clean(printed.partition(":")[0])
