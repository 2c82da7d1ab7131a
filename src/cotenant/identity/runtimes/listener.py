"""Which users listen on a TCP port of this host, from the kernel's socket tables."""

import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final

_LISTENING: Final = "0A"
_WORD: Final = 8  # Hexadecimal digits of 32 bits, as this machine has them in memory.

Address = IPv4Address | IPv6Address


def listeners(host: str, port: int, tables: Path = Path("/proc/net")) -> set[int]:
    """Users who listen where a connection would arrive; none if the host is not this one."""
    wanted = _address(host)
    found: dict[Address, set[int]] = {}
    for name in ("tcp", "tcp6"):
        for address, uid in _listening(tables / name, port):
            found.setdefault(address, set()).add(uid)
    if wanted in found:
        return found[wanted]  # The more exact address gets the connection.
    return {uid for address, uids in found.items() if address.is_unspecified for uid in uids}


def is_loopback(host: str) -> bool:
    """Whether a connection to it cannot leave this host."""
    return _address(host).is_loopback


def _address(host: str) -> Address:
    return _plain(ip_address(socket.getaddrinfo(host, None)[0][4][0]))


def _plain(address: Address) -> Address:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _listening(table: Path, port: int) -> Iterator[tuple[Address, int]]:
    try:
        file = table.open(encoding="ascii")
    except FileNotFoundError:
        return  # A kernel without this family.
    with file:
        next(file, None)
        for line in file:
            words = line.split()
            if words[3] != _LISTENING:
                return  # Those who listen come first.
            text, _, at = words[1].partition(":")
            if int(at, 16) == port:
                yield _read(text), int(words[7])


def _read(text: str) -> Address:
    words = (text[at : at + _WORD] for at in range(0, len(text), _WORD))
    return _plain(ip_address(b"".join(bytes.fromhex(word)[::-1] for word in words)))
