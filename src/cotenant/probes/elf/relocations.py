"""Where the loader writes, by the packed list that newer linkers make (``.relr.dyn``).

An even word is an address that is written to. An odd one has a bit for each of the 63 words that
follow what the last word was about.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from cotenant.probes.elf.headers import BadElf, ProgramHeader

RELOCATION: Final = np.dtype([("place", "<u8"), ("info", "<u8"), ("addend", "<u8")])
RELATIVE: Final = 8
_SPAN: Final = 63 * 8  # Bytes that one odd word is about.
_EXPANDED_MAX: Final = 1 << 16  # Odd words of a file that are about code: few libraries have any.

Words = npt.NDArray[np.uint64]


def packed_places(tables: Iterable[Words], code: Collection[ProgramHeader]) -> Iterator[Words]:
    """Addresses that are written to, as far as they may lie in code; others may be left out."""
    left = _EXPANDED_MAX
    for words in tables:
        odd = (words & np.uint64(1)).astype(np.bool_)
        yield words[~odd]
        bases, bitmaps = _near(words, odd, code)
        left -= len(bases)
        if left < 0:
            raise BadElf("has too much code that is written to when loaded")
        yield _expanded(bases, bitmaps)


def _near(
    words: Words, odd: npt.NDArray[np.bool_], code: Collection[ProgramHeader]
) -> tuple[Words, Words]:
    """The odd words that are about code, each with the address where what it is about begins."""
    order = np.arange(len(words))
    # For each word the last address up to it; an odd word before the first is about nothing.
    last = np.maximum.accumulate(np.where(odd, -1, order))
    bitmaps = order[odd & (last >= 0)]
    since = (bitmaps - last[bitmaps] - 1).astype(np.uint64)
    # Modulo 2**64, as the loader adds.
    bases = words[last[bitmaps]] + np.uint64(8) + since * np.uint64(_SPAN)
    near = np.zeros(len(bases), np.bool_)
    for segment in code:
        first = np.uint64(segment.address)
        near |= (bases - first < np.uint64(segment.file_size)) | (first - bases < np.uint64(_SPAN))
    return bases[near], words[bitmaps[near]]


def _expanded(bases: Words, bitmaps: Words) -> Words:
    """The words that the bits of these stand for; the lowest bit only says that it is odd."""
    raw = bitmaps.astype("<u8").view(np.uint8)
    bits = np.flatnonzero(np.unpackbits(raw, bitorder="little"))
    bits = bits[bits % 64 != 0]
    places: Words = bases[bits // 64] + (bits % 64 - 1).astype(np.uint64) * np.uint64(8)
    return places
