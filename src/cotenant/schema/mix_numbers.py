"""The number of a mix of operations: a hash of what it is made of, the same on every host."""

from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt


def name_number(name: str) -> int:
    """64 bits that stand for a kernel's name."""
    digest = blake2b(name.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def mix_numbers(entries: npt.NDArray[Any], mixes: int) -> npt.NDArray[np.int64]:
    """63 bits for each mix, from entries ordered by mix, name, size and whether that is known."""
    names = ("name", "size", "sized", "count")
    columns = [np.ascontiguousarray(entries[name]).view(np.uint64) for name in names]
    raw = np.stack(columns, axis=1)
    starts = np.searchsorted(entries["mix"], np.arange(mixes + 1)).tolist()
    digests = [
        blake2b(raw[start:end].tobytes(), digest_size=8).digest() for start, end in pairwise(starts)
    ]
    return (np.frombuffer(b"".join(digests), "<u8") >> np.uint64(1)).astype(np.int64)
