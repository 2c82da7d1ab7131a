"""What a recorder asks of its helper where it may not call bpf(2) itself, not even for open maps.

A call names a map by its place among those that were shared. Sizes of keys and values are the
map's own, so only what is as long as they say is a call.
"""

import socket
import struct
from enum import IntEnum
from typing import Final


class MapCall(IntEnum):
    """What can be done with a map, or with an iterator."""

    ITEMS = 1
    LOOKUP = 2
    UPDATE = 3
    DELETE = 4
    READ = 5


CALL: Final = struct.Struct("<BBHH")  # Which, of which map, bytes of the key, of the value.
ANSWER: Final = struct.Struct("<iQQ")  # An error number, and bytes of both parts of the answer.


def receive_exactly(link: socket.socket, count: int) -> bytes | None:
    """So many bytes; None if the other end closed."""
    room = bytearray(count)
    view = memoryview(room)
    while view:
        got = link.recv_into(view)
        if not got:
            return None
        view = view[got:]
    return bytes(room)
