"""A file that is being written: new, readable by its owner only, and whole or not there at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cotenant import leftovers

_MODE: Final = 0o600  # It has every tenant's rows; its owner decides who may read them.
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def written(file: Path, mode: str = "wb") -> Iterator[Any]:
    """Write to a part, never through what stands under its name; it takes the file's name last."""
    part = file.with_name(f".{file.name}.part")
    part.unlink(missing_ok=True)
    leftovers.remember(part)
    how = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    try:
        with open(os.open(part, _FLAGS, _MODE), mode, **how) as out:  # type: ignore[call-overload]
            yield out
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
        leftovers.forget(part)
