"""Names of kernels as two programs may both write them: without what demanglers differ in."""

import re
from functools import lru_cache
from typing import Final

_LONGEST: Final = 16_384
_LONGEST_BASE: Final = 512
_DROPPED: Final = re.compile(r"\(anonymous namespace\)::|->|\(anonymous namespace\)")
_PART: Final = re.compile(r"(\d{1,4})")
_OPEN: Final = "<({["
_CLOSE: Final = ">)}]"


@lru_cache(maxsize=8192)
def base_name(name: str) -> str:
    """``at::native::reduce_kernel`` of ``void at::native::reduce_kernel<512, 1>(float*)``."""
    name = name[:_LONGEST]
    if name.startswith("_Z"):
        return _of_mangled(name)[:_LONGEST_BASE]
    depth, kept = 0, []
    for sign in _DROPPED.sub("", name):
        if sign in _OPEN:
            depth += 1
        elif sign in _CLOSE:
            depth = max(depth - 1, 0)
        elif not depth:
            kept.append(sign)
    words = "".join(kept).split()
    return (words[-1] if words else name.strip())[:_LONGEST_BASE]


def _of_mangled(name: str) -> str:
    """The names that it is nested in, and its own: each has its length before it."""
    at = 3 if name[2:3] == "N" else 2
    parts = []
    while found := _PART.match(name, at):
        length = int(found[1])
        part = name[found.end() : found.end() + length]
        if len(part) < length or not length:
            break
        if not part.startswith("_GLOBAL__N"):
            parts.append(part)
        at = found.end() + length
        if name[2:3] != "N":
            break
    return "::".join(parts) or name
