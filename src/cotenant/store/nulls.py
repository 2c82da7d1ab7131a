"""Columns of which nothing is known: an event has many that are for others.

They are all the same zeros, in pages that were never written to: those take up no memory.
"""

import mmap
from typing import Any, Final

import pyarrow as pa

_ROWS_MAX: Final = 1 << 20
_ZEROS: Final = pa.py_buffer(
    mmap.mmap(-1, 8 * _ROWS_MAX, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
)


def nulls(rows: int, kind: Any) -> Any:
    """So many NULLs of a type."""
    if rows > _ROWS_MAX:
        return pa.nulls(rows, kind)
    if pa.types.is_dictionary(kind):
        words = pa.array([], kind.value_type)
        return pa.DictionaryArray.from_arrays(nulls(rows, kind.index_type), words, safe=False)
    if not pa.types.is_primitive(kind):
        return pa.nulls(rows, kind)
    return pa.Array.from_buffers(kind, rows, [_ZEROS, _ZEROS], null_count=rows)
