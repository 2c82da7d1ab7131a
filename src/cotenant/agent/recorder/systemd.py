"""Tells systemd that probes are attached, and that the recorder is alive."""

import contextlib
import os
import socket


class SystemdNotifier:
    """Writes to the manager's socket, where there is one; to be opened while that is allowed."""

    def __init__(self) -> None:
        address = os.environ.get("NOTIFY_SOCKET", "")
        self._socket: socket.socket | None = None
        if address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            # A manager that does not read must not stop us.
            self._socket.setblocking(False)
            with contextlib.suppress(OSError):
                self._socket.connect("\0" + address[1:] if address[0] == "@" else address)

    def say(self, *words: str) -> None:
        """One message; a manager that does not listen is no reason to stop."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.send("\n".join(words).encode())
