"""Texts that tenants chose: those that many bear are kept once."""

import sys
from dataclasses import dataclass


@dataclass(slots=True)
class _Kept:
    text: str
    uses: int = 0


class Texts:
    """Equal texts are one object; a text that nobody uses any more is dropped."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def cost(self, text: str) -> int:
        """How many bytes one more use of it takes."""
        return 0 if text in self._kept else sys.getsizeof(text)

    def use(self, text: str) -> str:
        """The same text, as it is kept."""
        self.bytes += self.cost(text)
        kept = self._kept.setdefault(text, _Kept(text))
        kept.uses += 1
        return kept.text

    def release(self, text: str) -> None:
        """One use less."""
        kept = self._kept[text]
        kept.uses -= 1
        if not kept.uses:
            del self._kept[text]
            self.bytes -= self.cost(text)
