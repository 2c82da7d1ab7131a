"""An end of the channel at which messages of one direction go out, and of the other come in."""

import os
import socket
from typing import Final, Generic, TypeVar, get_args

from cotenant.agent.channel import Channel, MessageCut, MessageTooLarge
from cotenant.agent.protocol.checks import Malformed
from cotenant.agent.protocol.codec import Decoder, encode
from cotenant.agent.protocol.reports import MapsShared, Report, Trouble
from cotenant.agent.protocol.requests import Request

Sent = TypeVar("Sent")
Heard = TypeVar("Heard")

_REQUESTS: Final[Decoder[Request]] = Decoder(get_args(Request))
_REPORTS: Final[Decoder[Report]] = Decoder(get_args(Report))


class Link(Generic[Sent, Heard]):
    """Sends and hears messages. What is no message is heard as trouble, and the next one comes."""

    def __init__(self, end: socket.socket, decoder: Decoder[Heard]) -> None:
        self._channel = Channel(end)
        self._decoder = decoder

    def fileno(self) -> int:
        """For poll and select."""
        return self._channel.fileno()

    def send(self, message: Sent, fds: list[int] | None = None) -> None:
        """Send one message, with copies of these descriptors; MessageTooLarge if it is not sent."""
        data = encode(message)
        try:
            self._channel.send(data, fds)
        except MessageTooLarge as error:
            kind = type(message).__name__
            raise MessageTooLarge(f"a message of type {kind} has {len(data)} bytes") from error

    def receive(self, timeout: float | None = None) -> tuple[Heard | Trouble, list[int]] | None:
        """The next message and its descriptors; None if there is none in time."""
        try:
            received = self._channel.receive(timeout)
            if received is None:
                return None
            data, fds = received
        except MessageCut as error:
            return Trouble("channel", str(error)), []
        message: Heard | Trouble
        try:
            message = self._decoder.decode(data)
        except Malformed as error:
            message = Trouble("channel", str(error))
        if not isinstance(message, MapsShared):
            # Nobody else has any to give.
            for fd in fds:
                os.close(fd)
            fds = []
        return message, fds

    def close(self) -> None:
        """Hang up: the other end sees it at once."""
        self._channel.close()


HelperLink = Link[Report, Request]
RecorderLink = Link[Request, Report]


def helper_link(end: socket.socket) -> HelperLink:
    """The helper's end."""
    return Link(end, _REQUESTS)


def recorder_link(end: socket.socket) -> RecorderLink:
    """The recorder's end."""
    return Link(end, _REPORTS)
