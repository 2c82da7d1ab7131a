"""Our maps and iterators in the kernel, for whoever reads or changes them."""

import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from cotenant.probes import syscalls

# Links of iterator programs; all others are maps.
ITERATORS = ("calls_under_way", "sweep")


class KernelMap(Protocol):
    """One map, or one iterator."""

    def items(self) -> tuple[bytes, bytes]:
        """Every entry, keys and values end to end."""

    def lookup(self, key: bytes) -> bytes | None:
        """One entry, of all CPUs where it has one for each; None if it has none."""

    def update(self, key: bytes, value: bytes) -> None:
        """Set one entry."""

    def delete(self, key: bytes) -> None:
        """Remove one entry, if it is there."""

    def read(self) -> bytes:
        """What the iterator's program writes now."""

    def page(self) -> mmap.mmap:
        """The map itself as memory."""


KernelMaps = Mapping[str, KernelMap]


@dataclass(frozen=True, slots=True)
class OpenMap:
    """A map that this process may call bpf(2) for."""

    name: str
    fd: int

    def items(self) -> tuple[bytes, bytes]:
        """See KernelMap."""
        return syscalls.map_items(self.fd, *syscalls.entry_bytes(self.name))

    def lookup(self, key: bytes) -> bytes | None:
        """See KernelMap."""
        return syscalls.map_lookup(self.fd, self.name, key)

    def update(self, key: bytes, value: bytes) -> None:
        """See KernelMap."""
        syscalls.map_update(self.fd, key, value)

    def delete(self, key: bytes) -> None:
        """See KernelMap."""
        syscalls.map_delete(self.fd, key)

    def read(self) -> bytes:
        """See KernelMap."""
        return syscalls.read_iterator(self.fd)

    def page(self) -> mmap.mmap:
        """See KernelMap."""
        return mmap.mmap(self.fd, mmap.PAGESIZE)
