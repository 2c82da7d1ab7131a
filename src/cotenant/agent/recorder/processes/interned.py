"""Interned strings: equal names of many processes are kept once."""

import sys
from collections import Counter
from dataclasses import dataclass
from typing import Final

_ENTRY_BYTES: Final = 96  # Memory that keeps a string, about.


@dataclass(slots=True)
class _SharedText:
    text: str
    owner: str
    size: int
    references: int = 0


class Interned:
    """Counts the references to each string, and drops it with the last one."""

    def __init__(self) -> None:
        self._entries: dict[str, _SharedText] = {}
        self.bytes = 0
        self.bytes_of: Counter[str] = Counter()  # By whom they were first brought.

    def __len__(self) -> int:
        return len(self._entries)

    def cost(self, text: str) -> int:
        """How many bytes one more reference takes: none where the string is interned already."""
        return 0 if text in self._entries else _size(text)

    def intern(self, text: str, owner: str = "") -> str:
        """The string that is kept for all equal ones; adds a reference."""
        entry = self._entries.get(text)
        if entry is None:
            entry = self._entries[text] = _SharedText(text, owner, _size(text))
            self._count(owner, entry.size)
        entry.references += 1
        return entry.text

    def release(self, text: str) -> None:
        """Drop a reference."""
        entry = self._entries[text]
        entry.references -= 1
        if not entry.references:
            del self._entries[text]
            self._count(entry.owner, -entry.size)

    def _count(self, owner: str, size: int) -> None:
        self.bytes += size
        self.bytes_of[owner] += size
        if not self.bytes_of[owner]:
            del self.bytes_of[owner]


def _size(text: str) -> int:
    """Its memory, about. Whoever writes it out leaves its UTF-8 with it, if it is not ASCII."""
    encoded = 0 if text.isascii() else len(text.encode("utf-8", "replace"))
    return _ENTRY_BYTES + sys.getsizeof(text) + encoded
