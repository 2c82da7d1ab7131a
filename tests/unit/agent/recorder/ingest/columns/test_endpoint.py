"""Addresses and endpoints as text."""

from ipaddress import ip_address

import pytest

from cotenant.agent.recorder.ingest.columns.endpoint import _address, _endpoint


def raw(address: str, port: int) -> bytes:
    parsed = ip_address(address)
    wide = parsed.packed if parsed.version == 6 else bytes(10) + b"\xff\xff" + parsed.packed
    return (wide + port.to_bytes(2, "little")).ljust(48, b"\0")


@pytest.mark.parametrize(
    ("wire", "family", "text"),
    [
        (raw("10.0.0.1", 80), "tcp", "10.0.0.1:80"),
        (raw("fd00::1", 65535), "udp6", "[fd00::1]:65535"),
        (raw("10.0.0.1", 80), "tcp6", "10.0.0.1:80"),
        (b"/run/a.sock".ljust(48, b"\0"), "unix", "/run/a.sock"),
        (b"\0hidden".ljust(48, b"\0"), "unix", "@hidden"),
        (b"/run/\x1b[2J".ljust(48, b"\0"), "unix", "/run/\ufffd[2J"),
    ],
)
def test_an_endpoint_is_written_as_people_write_it(wire: bytes, family: str, text: str) -> None:
    assert _endpoint(wire, family) == text


def test_an_address_of_version_4_is_written_as_such() -> None:
    assert _address(raw("10.0.0.1", 0)[:16]) == "10.0.0.1"
    assert _address(raw("::1", 0)[:16]) == "::1"
