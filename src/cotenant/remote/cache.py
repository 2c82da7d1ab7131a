"""Objects of far stores, kept on this machine up to a bound; the least recently used go first.

What a reader needs is linked into a directory of its own (a view), so that nothing which another
one lets go vanishes under it. A view is locked as long as its reader lives.
"""

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cotenant import leftovers
from cotenant.errors import StoreError
from cotenant.store.durable import open_part, part_of, remove_quietly, store_error

DEFAULT_BYTES: Final = 10 << 30
_VIEW: Final = "view-"


def cache_directory() -> Path:
    """Where objects are kept, by the environment."""
    if given := os.environ.get("COTENANT_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cotenant"


class Cache:
    """A directory for the objects of one far store, beside those of others."""

    def __init__(self, root: Path, far: str, most_bytes: int = DEFAULT_BYTES) -> None:
        self._root = root
        self._most_bytes = most_bytes
        self._objects = root / hashlib.blake2b(far.encode(), digest_size=8).hexdigest()
        try:
            self._objects.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise store_error("use the cache", root, error) from error

    def status(self, path: str) -> os.stat_result | None:
        """Of a file that is here; None if it is not."""
        try:
            return (self._objects / path).stat()
        except OSError:
            return None

    def read(self, path: str) -> bytes:
        """What is here under this name."""
        return (self._objects / path).read_bytes()

    def has(self, path: str, size: int) -> bool:
        """Whether the object is here, whole; it then counts as used now."""
        status = self.status(path)
        if status is None or status.st_size != size:
            return False
        with contextlib.suppress(OSError):
            os.utime(self._objects / path)
        return True

    def keep(self, path: str, content: bytes, changed_ns: int | None = None) -> None:
        """Keep a file, whole or not at all."""
        file = self._objects / path
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(open_part(file), "wb") as part:
                part.write(content)
            if changed_ns is not None:
                os.utime(part_of(file), ns=(changed_ns, changed_ns))
            part_of(file).rename(file)
        except OSError as error:
            remove_quietly((part_of(file),))
            raise store_error("write to the cache", file, error) from error

    def make_room(self, needed: Iterable[tuple[str, int]]) -> None:
        """Let go of what was not used for longest, so that all of this has room."""
        wanted = dict(needed)
        size = sum(wanted.values())
        if size > self._most_bytes:
            raise StoreError(
                f"this needs {size >> 20} MiB of objects, and the cache may have "
                f"{self._most_bytes >> 20}; query less time or fewer nodes, or set "
                "COTENANT_CACHE_BYTES"
            )
        kept = {str(self._objects / path) for path in wanted}
        others = sorted(self._others(kept))
        excess = size + sum(size for _, size, _ in others) - self._most_bytes
        for _, size, path in others:
            if excess <= 0:
                break
            remove_quietly((Path(path),))
            excess -= size

    def _others(self, kept: set[str]) -> Iterable[tuple[int, int, str]]:
        """Every other object: when it was last used, its size, its path."""
        for folder, names, files in os.walk(self._root):
            names[:] = [name for name in names if not name.startswith(_VIEW)]
            for name in files:
                path = os.path.join(folder, name)
                if name.endswith(".parquet") and path not in kept:
                    with contextlib.suppress(OSError):
                        status = os.stat(path)
                        yield status.st_mtime_ns, status.st_size, path

    def link(self, path: str, view: Path) -> None:
        """Make an object part of a view."""
        target = view / path
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not target.exists():
                os.link(self._objects / path, target)
        except OSError as error:
            raise store_error("use the cache", target, error) from error

    def new_view(self) -> tuple[Path, int]:
        """A directory to read from, and its lock; what dead readers left is removed."""
        for old in self._root.glob(f"{_VIEW}*"):
            _remove_if_dead(old)
        view = self._root / f"{_VIEW}{secrets.token_hex(8)}"
        try:
            leftovers.make_directory(view)
            return view, _locked(view)
        except OSError as error:
            raise store_error("use the cache", view, error) from error


def remove_view(view: Path, lock: int) -> None:
    """The reader is done."""
    shutil.rmtree(view, ignore_errors=True)
    leftovers.forget(view)
    os.close(lock)


def _locked(view: Path) -> int:
    fd = os.open(view, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(fd, fcntl.LOCK_SH)
    return fd


def _remove_if_dead(view: Path) -> None:
    with contextlib.suppress(OSError):
        fd = os.open(view, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(view, ignore_errors=True)
        finally:
            os.close(fd)
