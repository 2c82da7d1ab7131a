"""Frames and descriptors between helper and recorder; what is in a frame is ``protocol``'s."""

import array
import errno
import math
import os
import select
import socket
from typing import Final

from cotenant.errors import CotenantError

_MESSAGE_MAX: Final = 1 << 18
_FDS_MAX: Final = 64


class Closed(CotenantError):
    """The other process is gone."""


class MessageTooLarge(CotenantError):
    """The message has more bytes than one message can have; the other process is there."""


class MessageCut(CotenantError):
    """A message came that has more bytes than one message can have; the rest of it is gone."""


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

    def send(self, data: bytes, fds: list[int] | None = None) -> None:
        """Send one message, with copies of these descriptors; MessageTooLarge if it is not sent."""
        too_large = MessageTooLarge(f"a message has {len(data)} bytes")
        if len(data) > _MESSAGE_MAX:
            raise too_large
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self._socket.sendmsg([data], rights)
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                raise too_large from error
            raise Closed("the other process is gone") from error

    def receive(self, timeout: float | None = None) -> tuple[bytes, list[int]] | None:
        """The next message and its descriptors; None if there is none in time."""
        if timeout != 0:
            poller = select.poll()
            poller.register(self._socket, select.POLLIN)
            poller.poll(None if timeout is None else math.ceil(timeout * 1000))
        try:
            # Never the socket's own timeout: other threads send on it, and they are to wait.
            data, ancillary, flags, _ = self._socket.recvmsg(
                _MESSAGE_MAX, socket.CMSG_LEN(_FDS_MAX * 4), socket.MSG_DONTWAIT
            )
        except BlockingIOError:
            return None
        except OSError as error:
            raise Closed("the other process is gone") from error
        fds = _descriptors(ancillary)
        if flags & socket.MSG_TRUNC:
            for fd in fds:
                os.close(fd)
            raise MessageCut("a message was longer than any may be")
        if not data:
            raise Closed("the other process is gone")
        return data, fds

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
