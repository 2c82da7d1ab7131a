"""Interned strings: equal names of many processes are kept once."""

import sys
from dataclasses import dataclass


@dataclass(slots=True)
class _SharedText:
    text: str
    references: int = 0


class Interned:
    """Counts the references to each string, and drops it with the last one."""

    def __init__(self) -> None:
        self._entries: dict[str, _SharedText] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def cost(self, text: str) -> int:
        """How many bytes one more reference takes: none where the string is interned already."""
        return 0 if text in self._entries else sys.getsizeof(text)

    def intern(self, text: str) -> str:
        """The string that is kept for all equal ones; adds a reference."""
        self.bytes += self.cost(text)
        entry = self._entries.setdefault(text, _SharedText(text))
        entry.references += 1
        return entry.text

    def release(self, text: str) -> None:
        """Drop a reference."""
        entry = self._entries[text]
        entry.references -= 1
        if not entry.references:
            del self._entries[text]
            self.bytes -= self.cost(text)
