"""Connections that say nothing, little or too much: page and metrics answer others meanwhile."""

import contextlib
import socket
import threading
import time

import pytest

from tests.serving import serving, three_tenants

BOUND_S = 20.0  # Far above what an answer takes on a busy machine, far below any deadline's sum.
WELL_BEHAVED = ("/", "/app.js", "/api/status", "/metrics")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return three_tenants(tmp_path_factory.mktemp("silent") / "store")


@pytest.fixture(scope="module")
def served(store):
    with serving(store) as running:
        running.request("/metrics")  # Warm: what is measured is who waits for whom.
        running.sql("SELECT 1")
        yield running
        assert running.alive()


@pytest.fixture
def crowd(served):
    """``crowd(count, sent)``: so many connections, each of which has sent this."""
    with contextlib.ExitStack() as stack:

        def crowd(count, sent=b""):
            found = []
            for _ in range(count):
                one = socket.create_connection(("127.0.0.1", served.port), timeout=BOUND_S)
                stack.enter_context(one)
                with contextlib.suppress(OSError):  # One that was let go of already.
                    one.sendall(sent)
                found.append(one)
            return found

        yield crowd


def check_answers(served, times=1):
    for _ in range(times):
        for path in WELL_BEHAVED:
            began = time.monotonic()
            assert served.request(path).status == 200, path
            assert time.monotonic() - began < BOUND_S


HEAD = "POST /api/sql HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {length}\r\n"
HALF = HEAD + "Content-Type: application/json\r\n{token}\r\n{{"


@pytest.mark.parametrize("count", [70, 500])
def test_the_silent_keep_nobody_waiting(served, crowd, count):
    crowd(count)
    check_answers(served, 3)
    assert served.sql("SELECT 41 + 1").json["rows"] == [[42]]


@pytest.mark.parametrize(
    "sent",
    [
        "G",
        "GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Slow: ",
        "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
        HALF.replace("{token}", ""),
        "GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n" * 5,
        "GET /app.js HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n" * 5,
        HEAD + "Expect: 100-continue\r\n\r\n",
        "\x16\x03\x01",
    ],
    ids=["byte", "header", "answered", "body", "pipelined", "unread", "continue", "noise"],
)
def test_who_stops_in_the_middle_keeps_nobody_waiting(served, crowd, sent):
    crowd(280, sent.format(port=served.port, length=1 << 30).encode("latin-1"))
    check_answers(served)


def test_who_knows_the_token_and_stops_keeps_nobody_waiting(served, crowd):
    token = f"Authorization: Bearer {served.token}\r\n"
    crowd(280, HALF.format(port=served.port, length=60_000, token=token).encode())
    check_answers(served)


def test_a_flood_of_connections_keeps_nobody_waiting(served):
    done = threading.Event()
    opened = []

    def flood():
        kept = []
        while not done.is_set():
            with contextlib.suppress(OSError):
                kept.append(socket.create_connection(("127.0.0.1", served.port), timeout=5))
                opened.append(1)
                time.sleep(0.001)  # A thousand a second.
            if len(kept) > 300:
                kept.pop(0).close()
        for one in kept:
            one.close()

    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        check_answers(served)
    finally:
        done.set()
        flooding.join()
    assert len(opened) > 100


def test_a_browser_that_is_known_keeps_its_connection(served, crowd):
    request = (
        f"GET /api/questions HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
        f"Authorization: Bearer {served.token}\r\n\r\n"
    ).encode()
    (mine,) = crowd(1, request)
    assert mine.recv(12) == b"HTTP/1.1 200"
    crowd(300)
    mine.settimeout(2)
    with contextlib.suppress(TimeoutError):
        while mine.recv(1 << 16):
            pass
    mine.settimeout(BOUND_S)
    mine.sendall(request)
    assert mine.recv(12) == b"HTTP/1.1 200"


SLOW = ("", "G", "GET / HTTP/1.1\r\nX: ", HALF.replace("{token}", ""))


class Idle:
    """A worker that knows nothing. Only the server asks it, when it starts."""

    def ask(self, question, node):
        return {}


@pytest.fixture
def hasty(store, monkeypatch):
    """A server in this process whose patience is short."""
    from cotenant.views.web import connections, server

    monkeypatch.setattr(connections, "REQUEST_S", 1.0)
    monkeypatch.setattr(connections, "STALLED_S", 1.0)
    settings = server.WebSettings(store, port=0, token="a-token-of-the-tests")
    listening = server.bound_socket(settings)
    listening.listen()
    running = server.new_server(settings, listening, (Idle(), Idle()))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    port = listening.getsockname()[1]
    yield port
    running.should_exit = True
    thread.join(30)


def test_each_slow_request_ends_at_its_deadline(hasty):
    with contextlib.ExitStack() as stack:
        slow = []
        for sent in SLOW:
            one = stack.enter_context(socket.create_connection(("127.0.0.1", hasty), timeout=30))
            one.sendall(sent.format(port=hasty, length=1 << 30).encode())
            slow.append(one)
        loris = stack.enter_context(socket.create_connection(("127.0.0.1", hasty), timeout=30))
        loris.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{hasty}\r\nX: ".encode())
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 15:
                loris.sendall(b"x")
                time.sleep(0.1)
        assert time.monotonic() - began < 15
        for one in slow:
            one.settimeout(15)
            with contextlib.suppress(ConnectionResetError):
                while one.recv(1 << 16):
                    pass


def test_who_does_not_read_what_was_asked_for_is_let_go_of(hasty):
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(15)
        one.connect(("127.0.0.1", hasty))
        asked = f"GET /app.js HTTP/1.1\r\nHost: 127.0.0.1:{hasty}\r\n\r\n".encode()
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while True:
                one.sendall(asked * 100)
