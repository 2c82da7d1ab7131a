"""Who is connected: nobody keeps others waiting by saying nothing, too little or too much.

Whoever connects is accepted at once. When there are too many, of one peer or at all, the one goes
that has waited longest without having shown the token; the silent therefore make room for each
other. A request has a deadline, from its first byte or the connection to its last; an answer that
nobody takes has one too.
"""

import asyncio
import ipaddress
import socket
import struct
import time
from collections import Counter
from typing import Any, Final, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_S: Final = 10.0
STALLED_S: Final = 30.0
_MOST: Final = 512
_MOST_OF_PEER: Final = 256
# Fewer at a turn than there may be: whoever came with others has its request read before it is
# chosen to make room for them.
ACCEPTED_AT_ONCE: Final = 32
QUEUE: Final = 1024
KNOWN: Final = "cotenant.known"  # In a request's scope: it came with the token.
_CREDENTIALS: Final = struct.Struct("3i")


def peer_of(transport: asyncio.BaseTransport) -> str:
    """Whose connection it is: a user of this host, an address, or the network of an address."""
    own = cast("socket.socket", transport.get_extra_info("socket"))
    if own.family == socket.AF_UNIX:
        told = own.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return f"user {_CREDENTIALS.unpack(told)[1]}"
    address = ipaddress.ip_address(transport.get_extra_info("peername")[0].partition("%")[0])
    if address.version == 4:
        return str(address)
    # Who has one address of version 6 has all of its network.
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))


class Connections:
    """All that are open, and how many of whom."""

    def __init__(self) -> None:
        self._open: set[Connection] = set()
        self._of: Counter[str] = Counter()

    def admit(self, new: "Connection") -> None:
        """Take it in, in place of another if there are too many."""
        if self._of[new.peer] >= _MOST_OF_PEER:
            self._let_go(one for one in self._open if one.peer == new.peer)
        elif len(self._open) >= _MOST:
            ((crowd, _),) = self._of.most_common(1)
            self._let_go(one for one in self._open if one.peer == crowd)
        self._open.add(new)
        self._of[new.peer] += 1

    def leave(self, gone: "Connection") -> None:
        """It is closed, or about to be."""
        if gone in self._open:
            self._open.discard(gone)
            self._of[gone.peer] -= 1
            if not self._of[gone.peer]:
                del self._of[gone.peer]

    def _let_go(self, among: Any) -> None:
        longest = min(among, key=lambda one: (one.is_known(), one.since))
        self.leave(longest)
        longest.transport.abort()


class Connection(H11Protocol):
    """One connection; uvicorn's, with deadlines."""

    def __init__(self, connections: Connections, **given: Any) -> None:
        super().__init__(**given)
        self._all = connections
        self._request_ends: asyncio.TimerHandle | None = None
        self._stall_ends: asyncio.TimerHandle | None = None
        self.peer = ""
        self.since = 0.0

    def is_known(self) -> bool:
        """Whether its last request came with the token, and whole."""
        return self._request_ends is None and bool(self.scope and self.scope.get(KNOWN))

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody has connected."""
        super().connection_made(transport)
        self.peer, self.since = peer_of(transport), time.monotonic()
        self._all.admit(self)
        self._watch_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._all.leave(self)
        for timer in (self._request_ends, self._stall_ends):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A part of a request, or several."""
        super().data_received(data)
        self._watch_request()

    def on_response_complete(self) -> None:
        """The answer is written; a next request may be here already, whole or not."""
        super().on_response_complete()
        self._watch_request()

    def _watch_request(self) -> None:
        """A deadline as long as a request is under way; more bytes do not move it."""
        if not self._lacks_request():
            if self._request_ends is not None:
                self._request_ends.cancel()
                self._request_ends = None
        elif self._request_ends is None:
            self._request_ends = self.loop.call_later(REQUEST_S, self.transport.abort)

    def _lacks_request(self) -> bool:
        state = self.conn.their_state
        if state is h11.IDLE:
            return self.cycle is None or bool(self.conn.trailing_data[0])
        return state is h11.SEND_BODY

    def pause_writing(self) -> None:
        """The peer takes no more for now."""
        super().pause_writing()
        self._watch_stall(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """The peer has taken nearly all."""
        super().resume_writing()
        if self._stall_ends is not None:
            self._stall_ends.cancel()
            self._stall_ends = None

    def _watch_stall(self, before: int) -> None:
        def look() -> None:
            now = self.transport.get_write_buffer_size()
            if now < before:
                self._watch_stall(now)
            else:
                self.transport.abort()

        self._stall_ends = self.loop.call_later(STALLED_S, look)
