"""What helper and recorder say to each other: small JSON messages, and descriptors."""

import array
import json
import os
import socket
from typing import Any, Final

from cotenant.errors import CotenantError

_MESSAGE_MAX: Final = 1 << 18
_FDS_MAX: Final = 64

Message = dict[str, Any]


class Closed(CotenantError):
    """The other process is gone."""


class Channel:
    """One end of the socket pair between the two processes."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * _MESSAGE_MAX)

    @staticmethod
    def pair() -> tuple[socket.socket, socket.socket]:
        """Two connected ends; messages keep their bounds."""
        return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def fileno(self) -> int:
        """For poll and select."""
        return self._socket.fileno()

    def send(self, message: Message, fds: list[int] | None = None) -> None:
        """Send one message, with copies of these descriptors."""
        data = json.dumps(message, separators=(",", ":")).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self._socket.sendmsg([data], rights)
        except OSError as error:
            raise Closed("the other process is gone") from error

    def receive(self, timeout: float | None = None) -> tuple[Message, list[int]] | None:
        """The next message and its descriptors; None if there is none in time."""
        self._socket.settimeout(timeout)
        try:
            data, ancillary, _, _ = self._socket.recvmsg(
                _MESSAGE_MAX, socket.CMSG_LEN(_FDS_MAX * 4)
            )
        except (TimeoutError, BlockingIOError):
            return None
        except OSError as error:
            raise Closed("the other process is gone") from error
        finally:
            self._socket.settimeout(None)
        fds = _descriptors(ancillary)
        if not data:
            raise Closed("the other process is gone")
        return json.loads(data), fds

    def close(self) -> None:
        """Hang up: the other end sees it at once."""
        self._socket.close()


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    for fd in fds:
        os.set_inheritable(fd, False)
    return list(fds)
