"""Runtimes that answer as told: well, late, never, with garbage or without end."""

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path

Reply = Callable[[socket.socket, str], None]


def answer(body: object, status: int = 200) -> Reply:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()

    def reply(connection: socket.socket, _target: str) -> None:
        head = f"HTTP/1.0 {status} OK\r\nContent-Length: {len(data)}\r\n\r\n".encode()
        connection.sendall(head + data)

    return reply


def daemon(found: dict) -> Reply:
    """Docker with one container: the list of containers and its inspection."""
    listed = {"Id": found["Id"], "Names": [found["Name"]], "Image": found["Config"]["Image"]}
    listed |= {"Labels": found["Config"]["Labels"]}

    def reply(connection: socket.socket, target: str) -> None:
        in_list = target.startswith("/containers/json?")
        answer([listed] if in_list else found)(connection, target)

    return reply


def hang(connection: socket.socket, _target: str) -> None:
    connection.settimeout(30)
    while connection.recv(4096):
        pass


def drip(connection: socket.socket, _target: str) -> None:
    stop = threading.Event()
    for _ in range(3000):
        connection.sendall(b"H")
        stop.wait(0.01)


def raw(data: bytes) -> Reply:
    return lambda connection, _target: connection.sendall(data)


class FakeServer:
    """A unix socket that gives every caller the same reply."""

    def __init__(self, path: Path, reply: Reply) -> None:
        self.path = path
        self.reply = reply
        self.targets: list[str] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                target = connection.recv(4096).decode().split(" ")[1]
                self.targets.append(target)
                self.reply(connection, target)
            except OSError:
                return

    def close(self) -> None:
        if self._listener.fileno() < 0:
            return
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
