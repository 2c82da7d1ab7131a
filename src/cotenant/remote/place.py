"""Where a far store lies: a directory, or a bucket."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from cotenant.errors import StoreError, UsageError
from cotenant.remote.pace import Pace
from cotenant.store.directory import prepare
from cotenant.store.durable import (
    make_directory,
    open_part,
    open_to_group,
    part_of,
    remove_quietly,
    store_error,
    sync_directory,
)
from cotenant.store.plain_file import read_plain

CHUNK: Final = 1 << 18
S3: Final = "s3://"
_MOST_BYTES: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Listed:
    """An object, as a listing tells of it."""

    bytes: int
    changed_ns: int


class FarPlace(Protocol):
    """Objects by their path below a store: whole or absent, each replaced at once.

    Raises StoreError in words; FileNotFoundError where there is no such object.
    """

    @property
    def name(self) -> str:
        """As the user named it."""

    def prepare(self) -> None:
        """Make it a store, if it is none yet."""

    def read(self, path: str) -> bytes:
        """The content of an object."""

    def write(self, path: str, content: BinaryIO, pace: Pace) -> None:
        """Put an object, no faster than the pace allows."""

    def listed(self, folder: str) -> dict[str, Listed]:
        """What lies in a folder, by name; nothing where there is no such folder."""

    def remove(self, path: str) -> None:
        """Remove an object, if it is there."""


def place_of(where: str) -> FarPlace:
    """The place that a user names."""
    if where.startswith(S3):
        from cotenant.remote.bucket import Bucket

        return Bucket(where)
    if "://" in where:
        raise UsageError(f"{where} is neither a directory nor {S3}BUCKET/PREFIX")
    return FarDirectory(Path(where))


def chunks(content: BinaryIO, pace: Pace) -> Iterator[bytes]:
    """The content piece by piece, no faster than the pace allows."""
    content.seek(0)
    while chunk := content.read(CHUNK):
        pace.wait(len(chunk))
        yield chunk


class FarDirectory:
    """A far store in a directory, such as a mounted file system."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self.name = str(root)

    def prepare(self) -> None:
        """Make it a store, if it is none yet."""
        try:
            prepare(self._root, None)
        except StoreError as error:
            raise StoreError(str(error).replace("--store", "--to")) from error

    def read(self, path: str) -> bytes:
        """The content of a file."""
        try:
            return read_plain(self._root / path, _MOST_BYTES)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise store_error("read", self._root / path, error) from error

    def write(self, path: str, content: BinaryIO, pace: Pace) -> None:
        """Write a file aside, sync and rename it."""
        file = self._root / path
        try:
            for folder in reversed(file.relative_to(self._root).parents[:-1]):
                make_directory(self._root / folder)
            fd = open_part(file)
            with os.fdopen(fd, "wb") as part:
                open_to_group(fd)
                for chunk in chunks(content, pace):
                    part.write(chunk)
                part.flush()
                os.fsync(fd)
            part_of(file).rename(file)
            sync_directory(file.parent)
        except OSError as error:
            remove_quietly((part_of(file),))
            raise store_error("write", file, error) from error

    def listed(self, folder: str) -> dict[str, Listed]:
        """The plain files of a folder; what is not whole yet begins with a dot."""
        found = {}
        try:
            with os.scandir(self._root / folder) as entries:
                for entry in entries:
                    if not entry.name.startswith(".") and entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        found[entry.name] = Listed(status.st_size, status.st_mtime_ns)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            raise store_error("read", self._root / folder, error) from error
        return found

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        try:
            (self._root / path).unlink(missing_ok=True)
        except OSError as error:
            raise store_error("remove", self._root / path, error) from error
