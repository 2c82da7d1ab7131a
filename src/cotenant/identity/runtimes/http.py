"""One GET with a limit on time and size, over a unix socket or TCP.

``http.client`` has a time limit per read only, so a server that sends a byte now and
then holds it forever. Here the answer is first collected under one deadline, then parsed.
"""

import io
import json
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import Final, cast

from cotenant.identity.runtimes.source import ANSWER_MAX, Absent, SourceError

TIMEOUT_S: Final = 2.0
_HEAD_MAX: Final = 1 << 16
_CHUNK: Final = 1 << 16

Connect = Callable[[float], socket.socket]


class _Received:
    """What ``HTTPResponse`` wants of a socket: the bytes that came."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def unix_socket(path: str) -> Connect:
    """A way to connect to a unix socket."""

    def connect(timeout_s: float) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout_s)
        try:
            connection.connect(path)
        except FileNotFoundError as error:
            connection.close()
            raise Absent(f"no socket {path}") from error
        except OSError:
            connection.close()
            raise
        return connection

    return connect


def tcp(host: str, port: int, tls: ssl.SSLContext | None = None) -> Connect:
    """A way to connect to a port, with TLS if a context is given."""

    def connect(timeout_s: float) -> socket.socket:
        connection = socket.create_connection((host, port), timeout_s)
        if tls is None:
            return connection
        try:
            return tls.wrap_socket(connection, server_hostname=host)
        except OSError:
            connection.close()
            raise

    return connect


@dataclass(frozen=True, slots=True)
class Response:
    """Status and body of a GET; ``whole`` is false where the body was cut at the limit."""

    status: int
    body: bytes
    whole: bool


def get(
    connect: Connect,
    target: str,
    *,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    limit: int = ANSWER_MAX,
) -> Response:
    """Ask once; SourceError if the answer is late or not HTTP."""
    deadline = time.monotonic() + timeout_s
    lines = [f"GET {target} HTTP/1.0", "Host: localhost", "Accept: application/json"]
    lines += [f"{key}: {value}" for key, value in (headers or {}).items()]
    request = "\r\n".join([*lines, "", ""]).encode("ascii")
    try:
        with connect(timeout_s) as connection:
            connection.sendall(request)
            data = _receive(connection, deadline, limit + _HEAD_MAX)
    except TimeoutError as error:
        raise SourceError(f"no answer within {timeout_s:g} s") from error
    return _parse(data, limit)


def leading_members(body: bytes) -> dict[str, object]:
    """The members of a JSON object, or of the first in a list, that came whole."""
    text = body.decode("utf-8", "replace")
    decoder = json.JSONDecoder()
    members: dict[str, object] = {}
    at = _past(text, 0, r"\[?\s*{")
    try:
        while at:
            key, at = decoder.raw_decode(text, at)
            value, at = decoder.raw_decode(text, _past(text, at, ":"))
            members[str(key)] = value
            at = _past(text, at, ",")
    except ValueError:
        pass  # Here the text was cut.
    return members


def _past(text: str, at: int, mark: str) -> int:
    """The place after the mark and the blanks around it; 0 if it does not come next."""
    match = re.compile(rf"\s*{mark}\s*").match(text, at)
    return match.end() if match else 0


def _receive(connection: socket.socket, deadline: float, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while size <= limit:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        chunk = connection.recv(_CHUNK)
        if not chunk:
            break
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks)


def _parse(data: bytes, limit: int) -> Response:
    response = HTTPResponse(cast(socket.socket, _Received(data)))
    try:
        response.begin()
        body = response.read(limit + 1)
    except IncompleteRead as error:
        body = error.partial
    except (HTTPException, ValueError) as error:
        raise SourceError(f"the response is not HTTP: {type(error).__name__}") from error
    return Response(response.status, body[:limit], len(body) <= limit)
