"""An address that a browser can open, for a server that listens on every interface."""

import ipaddress
import socket
from typing import Final

# Of addresses for documentation: nothing is sent, the kernel only says which way it would go.
_ELSEWHERE: Final = {4: (socket.AF_INET, "192.0.2.1"), 6: (socket.AF_INET6, "2001:db8::1")}


def is_wildcard(address: str) -> bool:
    """Whether it stands for every interface."""
    try:
        return ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False


def reachable(address: str) -> str:
    """The address itself; for every interface, the one that others see of this host."""
    if not is_wildcard(address):
        return address
    version = ipaddress.ip_address(address).version
    family, elsewhere = _ELSEWHERE[version]
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return "127.0.0.1" if version == 4 else "::1"
