"""The id that joins events with containers across boots and nodes."""

from hashlib import blake2b
from typing import Final

from cotenant.schema.constants import OWNER_NOBODY, OWNER_UNTOLD

V2: Final = 0  # The kernel's number for the unified hierarchy.
ROOT: Final = 1  # The kernel's id of every hierarchy's root.
NOBODY: Final = OWNER_NOBODY % (1 << 64)  # On the wire: the event belongs to the kernel itself.
UNTOLD: Final = OWNER_UNTOLD  # On the wire: the cgroup could not be told.

_PSEUDO: Final = -1  # Not a hierarchy: rows that stand for no cgroup.
_BITS: Final = (1 << 63) - 1


def cgroup_id(node: str, boot_id: str, hierarchy: int, kernel_id: int) -> int:
    """63 bits of a hash of where, when and which: never negative, the same in every table."""
    text = f"{node}\0{boot_id}\0{hierarchy}\0{kernel_id}"
    digest = blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "little") & _BITS


def kernel_row_id(node: str, boot_id: str) -> int:
    """The id of the row ``kernel``."""
    return cgroup_id(node, boot_id, _PSEUDO, NOBODY)


def unknown_row_id(node: str, boot_id: str) -> int:
    """The id of the row ``unknown``."""
    return cgroup_id(node, boot_id, _PSEUDO, UNTOLD)
