"""Whether any process on this host uses a GPU."""

import contextlib
import re
from pathlib import Path

_LIBRARY = re.compile(rb"/(libcuda\.so|libcudart\.so|libnccl\.so)[.\d]*$", re.MULTILINE)


def gpu_processes() -> int:
    """How many processes have a GPU library mapped."""
    found = 0
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            found += bool(_LIBRARY.search(maps.read_bytes()))
    return found
