"""C++ names as people write them. The names come from tenants: long or hostile ones stay raw."""

import contextlib
from functools import lru_cache
from typing import Final

import cxxfilt

_LONGEST: Final = 4096


@lru_cache(maxsize=65536)
def demangle(name: str) -> str:
    """The readable form of a mangled name; any other name as it is, made printable."""
    if name.startswith("_Z") and len(name) < _LONGEST:
        with contextlib.suppress(cxxfilt.InvalidName):
            name = cxxfilt.demangle(name)
    return "".join(c if c.isprintable() else "\ufffd" for c in name)
