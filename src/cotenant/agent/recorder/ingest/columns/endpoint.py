"""Addresses, ports and paths of sockets, as text."""

from functools import lru_cache
from ipaddress import IPv6Address
from typing import Any

from cotenant.agent.recorder.ingest.batch import Batch
from cotenant.agent.recorder.ingest.columns.plain import Needs
from cotenant.printable import printable
from cotenant.schema.constants import ENDPOINT_ADDRESS_BYTES, ENDPOINT_PORT_BYTES
from cotenant.schema.events import ENUMS
from cotenant.schema.wire import Field

_FAMILIES = ENUMS["net_family"]
_PORT_END = ENDPOINT_ADDRESS_BYTES + ENDPOINT_PORT_BYTES


class AddressColumn:
    """Sixteen bytes as an IP address."""

    def needs(self, field: Field) -> Needs:
        """The bytes."""
        return [], [(field.name,)]

    def make(self, batch: Batch, field: Field) -> Any:
        """An address of version 4 as such, also where a socket of version 6 holds it."""
        codes, distinct = batch.key(field.name)
        return batch.spread(codes, [_address(value.tobytes()) for value in distinct[field.name]])


class EndpointColumn:
    """An address and port, or the path of a Unix socket."""

    def needs(self, field: Field) -> Needs:
        """The bytes, and what they are."""
        return [], [(field.name, "family", "known")]

    def make(self, batch: Batch, field: Field) -> Any:
        """``10.0.0.1:80``, ``[fe80::1]:80``, ``/run/x.sock`` or ``@abstract``."""
        codes, distinct = batch.key(field.name, "family", "known")
        texts = [
            _endpoint(entry[field.name].tobytes(), _FAMILIES.get(int(entry["family"]), ""))
            if int(entry["known"]) >> (field.known or 0) & 1
            else None
            for entry in distinct
        ]
        return batch.spread(codes, texts)


@lru_cache(4096)
def _address(raw: bytes) -> str:
    address = IPv6Address(raw)
    return str(address.ipv4_mapped or address)


@lru_cache(4096)
def _endpoint(raw: bytes, family: str) -> str:
    if family == "unix":
        name = raw.rstrip(b"\0")
        clean = printable(name.lstrip(b"\0").split(b"\0")[0].decode("utf-8", "replace"))
        return f"@{clean}" if name.startswith(b"\0") else clean
    address = _address(raw[:ENDPOINT_ADDRESS_BYTES])
    port = int.from_bytes(raw[ENDPOINT_ADDRESS_BYTES:_PORT_END], "little")
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
