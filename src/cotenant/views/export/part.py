"""A file that is being written: new, and readable by its owner only."""

import os
from pathlib import Path
from typing import Final

_MODE: Final = 0o600  # It has every tenant's rows; its owner decides who may read them.
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def make_part(part: Path) -> int:
    """Make the file, never through what stands under its name already; its descriptor."""
    part.unlink(missing_ok=True)
    return os.open(part, _FLAGS, _MODE)
