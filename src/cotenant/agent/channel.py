"""What helper and recorder say to each other: small JSON messages, and descriptors."""

import array
import errno
import json
import math
import os
import select
import socket
from collections.abc import Iterable, Iterator
from typing import Any, Final

from cotenant.errors import CotenantError

_MESSAGE_MAX: Final = 1 << 18
_SLICE_BYTES: Final = 1 << 16
_FDS_MAX: Final = 64
_TEXT_MAX: Final = 200

Message = dict[str, Any]


class Closed(CotenantError):
    """The other process is gone."""


class MessageTooLarge(CotenantError):
    """The message has more bytes than one message can have; the other process is there."""


def trouble(of: str, error: Exception | str) -> Message:
    """What to say when something fails that nobody may die of."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return {"type": "trouble", "of": of, "text": text[:_TEXT_MAX]}


def slices(items: Iterable[Any]) -> Iterator[list[Any]]:
    """The items in lists that each fit into a message, whatever a tenant has put into them."""
    part: list[Any] = []
    size = 0
    for item in items:
        more = len(_encoded(item)) + 1
        if part and size + more > _SLICE_BYTES:
            yield part
            part, size = [], 0
        part.append(item)
        size += more
    if part:
        yield part


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
        """Send one message, with copies of these descriptors; MessageTooLarge if it is not sent."""
        data = _encoded(message)
        too_large = MessageTooLarge(f"a message of type {message['type']} has {len(data)} bytes")
        if len(data) > _MESSAGE_MAX:
            raise too_large
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self._socket.sendmsg([data], rights)
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                raise too_large from error
            raise Closed("the other process is gone") from error

    def receive(self, timeout: float | None = None) -> tuple[Message, list[int]] | None:
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
            return trouble("channel", "a message was longer than any may be"), []
        if not data:
            raise Closed("the other process is gone")
        return json.loads(data), fds

    def close(self) -> None:
        """Hang up: the other end sees it at once."""
        self._socket.close()


def _encoded(message: Any) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    for fd in fds:
        os.set_inheritable(fd, False)
    return list(fds)
