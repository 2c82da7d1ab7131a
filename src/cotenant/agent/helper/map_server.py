"""Reads and changes the shared maps for a recorder that may not: before v5.19 it lacks CAP_BPF."""

import contextlib
import errno
import socket
import threading
from collections.abc import Mapping

from cotenant.agent.map_calls import ANSWER, CALL, MapCall, receive_exactly
from cotenant.probes.kernel_maps import ITERATORS, OpenMap
from cotenant.schema.constants import MAPS, PER_CPU_MAPS


class MapServer:
    """Serves until the other end is closed; a recorder that needs no server closes it at once."""

    def __init__(self, shared: Mapping[str, int]) -> None:
        self._maps = [OpenMap(name, fd) for name, fd in shared.items()]
        self._socket, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._thread = threading.Thread(target=self._serve, name="maps", daemon=True)

    @property
    def theirs(self) -> int:
        """The recorder's end."""
        return self._theirs.fileno()

    def start(self) -> None:
        """Serve; the recorder has its end by now."""
        self._theirs.close()
        self._thread.start()

    def wait(self) -> None:
        """Until the recorder wants nothing any more."""
        self._thread.join()

    def _serve(self) -> None:
        with self._socket, contextlib.suppress(OSError):
            while head := receive_exactly(self._socket, CALL.size):
                which, number, key_bytes, value_bytes = CALL.unpack(head)
                rest = receive_exactly(self._socket, key_bytes + value_bytes)
                if rest is None:
                    return
                parts: tuple[bytes, ...] = ()
                try:
                    failed = 0
                    parts = self._do(which, number, rest[:key_bytes], rest[key_bytes:])
                except OSError as error:
                    failed = error.errno or errno.EIO
                sizes = [len(part) for part in (*parts, b"", b"")]
                self._socket.sendall(ANSWER.pack(failed, sizes[0], sizes[1]) + b"".join(parts))

    def _do(self, which: int, number: int, key: bytes, value: bytes) -> tuple[bytes, ...]:
        """The kernel reads and writes as much as the map says: a call must agree with it."""
        if number >= len(self._maps):
            raise OSError(errno.EBADF, "there is no such map")
        target = self._maps[number]
        sizes = MAPS.get(target.name)  # Of a ring there are none.
        if not key and not value:
            if which == MapCall.READ and target.name in ITERATORS:
                return (target.read(),)
            if which == MapCall.ITEMS and sizes:
                return target.items()
        elif sizes == (len(key), len(value)):
            if which == MapCall.UPDATE and target.name not in PER_CPU_MAPS:
                target.update(key, value)
                return ()
        elif sizes and (len(key), len(value)) == (sizes[0], 0):
            if which == MapCall.LOOKUP:
                return self._looked_up(target, key)
            if which == MapCall.DELETE:
                target.delete(key)
                return ()
        raise OSError(errno.EINVAL, "this map has no such call")

    def _looked_up(self, target: OpenMap, key: bytes) -> tuple[bytes, ...]:
        found = target.lookup(key)
        if found is None:
            raise OSError(errno.ENOENT, "there is no such entry")
        return (found,)
