"""How the recorder, without any capability, gets at the maps that the helper shares."""

import errno
import mmap
import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cotenant.agent.map_calls import ANSWER, CALL, MapCall, receive_exactly
from cotenant.confine.capabilities import works_with
from cotenant.errors import CotenantError
from cotenant.probes.kernel_maps import KernelMaps, OpenMap

_SECONDS: Final = 60.0  # For one call; on a busy host others go first.


class MapClient:
    """Has the helper call bpf(2)."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._lock = threading.Lock()
        link.settimeout(_SECONDS)

    def call(
        self, which: MapCall, number: int, key: bytes = b"", value: bytes = b""
    ) -> tuple[bytes, bytes]:
        """What the helper answers, in two parts."""
        with self._lock:
            try:
                self._link.sendall(CALL.pack(which, number, len(key), len(value)) + key + value)
                head = receive_exactly(self._link, ANSWER.size)
                failed, *sizes = ANSWER.unpack(head) if head else (errno.EPIPE, 0, 0)
                parts = [receive_exactly(self._link, size) for size in sizes]
            except OSError as error:
                raise CotenantError(f"the helper reads no maps any more: {error}") from error
        if failed == errno.EPIPE:
            raise CotenantError("the helper died; what was recorded is kept")
        if failed:
            raise OSError(failed, f"{which.name.lower()} of a map: {os.strerror(failed)}")
        return parts[0] or b"", parts[1] or b""


@dataclass(frozen=True, slots=True)
class AskedMap:
    """A map that the helper reads and changes for us."""

    client: MapClient
    number: int
    fd: int

    def items(self) -> tuple[bytes, bytes]:
        """See KernelMap."""
        return self.client.call(MapCall.ITEMS, self.number)

    def lookup(self, key: bytes) -> bytes | None:
        """See KernelMap."""
        try:
            return self.client.call(MapCall.LOOKUP, self.number, key)[0]
        except FileNotFoundError:
            return None

    def update(self, key: bytes, value: bytes) -> None:
        """See KernelMap."""
        self.client.call(MapCall.UPDATE, self.number, key, value)

    def delete(self, key: bytes) -> None:
        """See KernelMap."""
        self.client.call(MapCall.DELETE, self.number, key)

    def read(self) -> bytes:
        """See KernelMap."""
        return self.client.call(MapCall.READ, self.number)[0]

    def page(self) -> mmap.mmap:
        """See KernelMap. That takes no call of bpf(2)."""
        return mmap.mmap(self.fd, mmap.PAGESIZE)


def kernel_maps(fds: Mapping[str, int], server: socket.socket) -> KernelMaps:
    """The shared maps, in their order: opened by us if the kernel lets us, else the helper's."""
    controls = OpenMap("controls", fds["controls"])
    if works_with((), lambda: controls.lookup(bytes(4))):
        server.close()
        return {name: OpenMap(name, fd) for name, fd in fds.items()}
    client = MapClient(server)
    return {name: AskedMap(client, number, fd) for number, (name, fd) in enumerate(fds.items())}
