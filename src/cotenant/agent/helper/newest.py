"""What tenants bring, of each the newest: whoever brings much loses only what is its own."""

import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class NewestOfEach(Generic[_K, _V]):
    """A mapping with a bounded number of entries for each tenant; any thread may use it."""

    def __init__(self, each_max: int, number: Callable[[_K], int]) -> None:
        """``number`` is what the kernel shows of a key: the number of an inode."""
        self._each_max = each_max
        self._number = number
        self._entries: dict[_K, tuple[str, _V]] = {}
        self._of: dict[str, dict[_K, None]] = {}
        self._numbers: dict[int, int] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[tuple[_K, _V]]:
        with self._lock:
            return iter([(key, value) for key, (_, value) in self._entries.items()])

    def get(self, key: _K) -> _V | None:
        """The value of an entry; None if there is none."""
        return self._entries.get(key, (None, None))[1]

    def shows(self, number: int) -> bool:
        """Whether any key has this number."""
        return number in self._numbers

    def owner(self, key: _K) -> str | None:
        """Whose an entry is; None if there is none."""
        return self._entries.get(key, (None,))[0]

    def put(self, tenant: str, key: _K, value: _V) -> None:
        """An entry of this tenant; beyond its bound, its oldest one goes."""
        with self._lock:
            self._remove(key)
            self._entries[key] = tenant, value
            mine = self._of.setdefault(tenant, {})
            mine[key] = None
            number = self._number(key)
            self._numbers[number] = self._numbers.get(number, 0) + 1
            if len(mine) > self._each_max:
                self._remove(next(iter(mine)))

    def pop(self, key: _K) -> bool:
        """Forget an entry; whether there was one."""
        with self._lock:
            return self._remove(key)

    def _remove(self, key: _K) -> bool:
        tenant, _ = self._entries.pop(key, (None, None))
        if tenant is None:
            return False
        self._of[tenant].pop(key)
        if not self._of[tenant]:
            del self._of[tenant]
        number = self._number(key)
        self._numbers[number] -= 1
        if not self._numbers[number]:
            del self._numbers[number]
        return True
