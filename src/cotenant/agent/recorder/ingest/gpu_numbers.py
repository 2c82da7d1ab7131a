"""Numbers that stand for GPUs in the native part, given back when nothing is of them any more."""

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from cotenant.agent.recorder.processes.shares import Shares

_MOST: Final = 1024

Numbers = npt.NDArray[np.int32]


class GpuNumbers:
    """A tenant tells the UUIDs of its GPUs: it may have as many as are still free."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._owners: dict[int, str] = {}
        self._shares = Shares(_MOST)
        self._used_ns = np.zeros(_MOST, np.int64)
        self._free: list[int] = []
        # By number; one that was given back keeps its last word until it is another's.
        self.words: list[str] = []

    def find(
        self, words: list[str], places: npt.NDArray[np.int64], whose: Callable[[int], str], now: int
    ) -> Numbers:
        """The number of the word at each place; -1 beyond them, and where there is no room.

        ``whose`` says which tenant tells the word of a place.
        """
        if any(word not in self._numbers for word in words):
            for code, first in zip(*np.unique(places, return_index=True), strict=True):
                if code < len(words) and words[code] not in self._numbers:
                    self._add(words[code], whose(first))
        numbers = np.array([*(self._numbers.get(word, -1) for word in words), -1], np.int32)
        self._used_ns[numbers[numbers >= 0]] = now
        found: Numbers = numbers[places]
        return found

    def _add(self, word: str, tenant: str) -> None:
        if self._shares.over(tenant):
            return
        if self._free:
            number = self._free.pop()
            self.words[number] = word
        else:
            number = len(self.words)
            self.words.append(word)
        self._shares.count(tenant, 1)
        self._numbers[word], self._owners[number] = number, tenant

    def give_back(self, before_ns: int, still: Iterable[int]) -> None:
        """Those that were last used before this time, but for those that spans ``still`` have."""
        old = [n for n in self._owners if self._used_ns[n] < before_ns]
        for number in set(old).difference(still):
            self._shares.count(self._owners.pop(number), -1)
            del self._numbers[self.words[number]]
            self._free.append(number)
