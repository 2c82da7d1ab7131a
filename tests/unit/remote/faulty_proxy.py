"""A proxy before an S3 server that fails some of the requests, from a seed."""

import http.client
import random
import socket
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FAULTS = ("503", "reset", "lost reply", "truncated body")
_SLOW_DOWN = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>slow</Message></Error>"
_DENIED = b"<?xml version='1.0'?><Error><Code>InvalidAccessKeyId</Code></Error>"
_HOP = frozenset({"connection", "transfer-encoding", "content-length", "date", "server"})


class FaultyProxy(ThreadingHTTPServer):
    """Listens on loopback; ``fails`` is the share of requests that fail."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port, *, fails, seed):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = port
        self.fails = fails
        self.denies = False  # Every request, as for a wrong key.
        self.seen = []  # Of each request the method, the path, and the fault or None.
        self._chance = random.Random(seed)
        self._lock = threading.Lock()

    def fault(self, method, path):
        with self._lock:
            failing = self._chance.random() < self.fails
            fault = self._chance.choice(FAULTS) if failing else None
            self.seen.append((method, path, fault))
            return fault

    def handle_error(self, request, client_address):
        """A client that was cut off says so; nobody wants to know."""

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _pass_on(self):
        body = self._body()
        fault = self.server.fault(self.command, self.path)
        if self.server.denies:
            self._reply(403, {}, _DENIED)
        elif fault == "503":
            self._reply(503, {}, _SLOW_DOWN)
        elif fault == "reset":
            self._cut_off()
        else:
            status, headers, content = self._ask(body)
            if fault == "lost reply":
                self._cut_off()
            elif fault == "truncated body":
                self._reply(status, headers, content, cut=True)
                self._cut_off()
            else:
                self._reply(status, headers, content)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass_on

    def _body(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _ask(self, body):
        server = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=30)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in {"expect", *_HOP}}
        try:
            server.request(self.command, self.path, body, headers)
            answer = server.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            server.close()

    def _reply(self, status, headers, content, *, cut=False):
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        size = (
            headers.get("Content-Length", len(content)) if self.command == "HEAD" else len(content)
        )
        # One that has no body to cut is cut in its head.
        if not cut or content:
            self.send_header("Content-Length", str(size))
            self.end_headers()
        if content and self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if cut else content)

    def _cut_off(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def log_message(self, *_):
        """Nothing."""
