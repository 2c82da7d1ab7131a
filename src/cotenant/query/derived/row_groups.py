"""Ordered rows, one group per key."""

from typing import Any

import numpy as np


def groups_of(rows: Any, *keys: str) -> list[tuple[tuple[Any, ...], Any]]:
    """Split rows, which are ordered by the keys, into one slice per key."""
    if not rows.num_rows:
        return []
    changed = np.zeros(rows.num_rows, dtype=bool)
    changed[0] = True
    for key in keys:
        codes = rows[key].combine_chunks().dictionary_encode(null_encoding="encode").indices
        values = codes.to_numpy(zero_copy_only=False)
        changed[1:] |= values[1:] != values[:-1]
    starts = np.flatnonzero(changed)
    ends = [*starts[1:], rows.num_rows]
    return [
        (tuple(rows[key][int(a)].as_py() for key in keys), rows.slice(int(a), int(b - a)))
        for a, b in zip(starts, ends, strict=True)
    ]
