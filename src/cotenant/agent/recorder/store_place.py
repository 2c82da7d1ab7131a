"""Where a recorder's store is, for people and for a user who may not go all the way there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cotenant.confine.capabilities import works_with
from cotenant.errors import StoreError


@dataclass(frozen=True, slots=True)
class StorePlace:
    """A store: how people call it, and how this process reaches it."""

    name: Path
    path: Path
    at_first: str | None = None  # What the kernel called it; None where we go by its name.

    @classmethod
    def reached(cls, name: Path, fd: int) -> "StorePlace":
        """The store that is open: by its name if it can be, else by the descriptor."""
        if works_with((), lambda: _is_same(name, fd)):
            os.close(fd)
            return cls(name, name)
        path = Path(f"/proc/self/fd/{fd}")
        return cls(name, path, os.readlink(path))

    def check(self) -> None:
        """Raise StoreError if it was moved or deleted; a descriptor would go along with it."""
        if self.at_first is not None and os.readlink(self.path) != self.at_first:
            raise StoreError(f"{self.name} is gone; recording stops")

    def told(self, text: str | None) -> str | None:
        """A text about the store, if there is any, with the name that people know."""
        return text and self._named(text)

    def _named(self, text: str) -> str:
        return text if self.at_first is None else text.replace(str(self.path), str(self.name))

    @contextmanager
    def named(self) -> Iterator[None]:
        """Errors name the store as people do."""
        try:
            yield
        except StoreError as error:
            raise StoreError(self._named(str(error))) from error


def _is_same(name: Path, fd: int) -> None:
    if not os.path.samestat(os.stat(name), os.fstat(fd)):
        raise StoreError(f"{name} is another directory by now")
