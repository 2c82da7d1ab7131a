"""Inodes as the kernel's records of mappings show them: all of one, or no more than its number.

Of a file that was mapped through an overlay, some kernels (6.18 is one) show the overlay's inode:
with the same number, but with the overlay's device, an anonymous one, and without a generation.
Others show the file itself.
"""

from typing import Final

from cotenant.probes.inodes import Inode

_MINOR_BITS: Final = 20  # Within the kernel; user space writes device numbers in another way.


def shown_inode(major: int, minor: int, number: int, generation: int) -> Inode:
    """As a record writes it."""
    return Inode(major << _MINOR_BITS | minor, number, generation)


def is_anonymous(inode: Inode) -> bool:
    """Whether its device has a number that the next mount may have, too: it is no disk."""
    return not inode.device >> _MINOR_BITS


def may_be(shown: Inode, inode: Inode) -> bool:
    """Whether it may be this file that a record shows."""
    if shown.number != inode.number:
        return False
    return shown == inode or (is_anonymous(shown) and shown.device != inode.device)
