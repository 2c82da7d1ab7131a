"""A listening socket that systemd opened, and started us for: sd_listen_fds(3)."""

import os
import socket
from typing import Final

from cotenant.errors import UsageError

_FIRST: Final = 3


def passed_socket() -> socket.socket | None:
    """The socket that was passed to this process; None if none was."""
    pid, number = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()):
        return None
    if number != "1":
        raise UsageError(f"systemd passed {number} sockets; name one in the .socket unit")
    os.set_inheritable(_FIRST, False)
    return socket.socket(fileno=_FIRST)
