"""A port is the kubelet's only where root listens on it."""

import json
import os
import socket
import threading

import pytest

from cotenant.identity.runtimes import KubeletSource
from cotenant.identity.runtimes.listener import listeners
from tests.unit.identity.runtimes.samples import IMITATED, A, pods

STRANGER = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")


def _serve(listener):
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.recv(4096)
            body = json.dumps(pods(A)).encode()
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + body)


@pytest.fixture
def serve():
    """``serve(host, uid)``: pods on a port of that user's; the port."""
    opened = []

    def serve(host="127.0.0.1", uid=None, port=0):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        if uid is not None:
            os.seteuid(uid)
        try:
            listener = socket.socket(family, socket.SOCK_STREAM)
        finally:
            if uid is not None:
                os.seteuid(0)
        opened.append(listener)
        listener.bind((host, port))
        listener.listen()
        threading.Thread(target=_serve, args=(listener,), daemon=True).start()
        return listener.getsockname()[1]

    yield serve
    for listener in opened:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::"])
def test_pods_are_believed_of_whoever_we_are(serve, host):
    port = serve(host)
    assert listeners("127.0.0.1", port) == {os.geteuid()}
    source = KubeletSource(f"http://127.0.0.1:{port}/pods")
    names = source.lookup(IMITATED, "")
    assert (names.pod, names.confirmed) == ("trainer-0", True)


@needs_root
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::"])
def test_pods_are_not_believed_of_somebody_else(serve, host):
    port = serve(host, STRANGER)
    assert listeners("127.0.0.1", port) == {STRANGER}
    source = KubeletSource(f"http://127.0.0.1:{port}/pods")
    assert source.lookup(IMITATED, "") is None
    status = source.status()
    assert (status.state, status.failures) == ("absent", 0)
    assert status.last_error == (
        f"user 65534 listens at http://127.0.0.1:{port}/pods, not root: not believed"
    )


@needs_root
def test_no_token_is_sent_to_somebody_else(serve, tmp_path):
    token = tmp_path / "token"
    token.write_text("secret")
    port = serve(uid=STRANGER)
    source = KubeletSource(f"https://127.0.0.1:{port}/pods", token=token)
    assert source.lookup(IMITATED, "") is None
    assert "not believed" in source.status().last_error


@needs_root
def test_who_listens_on_another_address_spoils_nothing(serve):
    port = serve()
    serve("127.0.0.2", STRANGER, port)
    assert listeners("127.0.0.1", port) == {0}
    assert listeners("localhost", port) == {0}
    assert listeners("127.0.0.3", port) == set()
