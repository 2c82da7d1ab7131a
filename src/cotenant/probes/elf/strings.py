"""Strings of an ELF file: where names lie in a table of them."""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

MAX_NAME: Final = 1 << 16  # Bytes.
_MAX_PLACES: Final = 64  # Of one name among the strings: linkers write each once, or a few times.
_MAX_CANDIDATES: Final = 1 << 16
_END: Final = 6  # Bytes of a name that are compared all at once: its last ones.
_AT_ONCE: Final = 1 << 20


def string_places(strings: bytes, wanted: Collection[bytes]) -> dict[int, bytes]:
    """Where each wanted string starts: also inside a longer one, whose end linkers share.

    One pass over the strings, however many are wanted.
    """
    places: dict[int, bytes] = {}
    by_end: dict[int, list[bytes]] = {}
    for name in wanted:
        by_end.setdefault(_end(name), []).append(name)
    counts: Counter[bytes] = Counter()
    for end, key in _ends(strings, by_end):
        for name in by_end[key]:
            start = end - len(name)
            if start >= 0 and counts[name] < _MAX_PLACES and strings[start:end] == name:
                counts[name] += 1
                places[start] = name
    return places


def _end(name: bytes) -> int:
    return int.from_bytes(name[-_END:].rjust(_END, b"\0"), "little")


def _ends(strings: bytes, wanted: Collection[int]) -> Iterator[tuple[int, int]]:
    """Where a string ends whose last bytes are wanted, and those bytes."""
    keys = np.array(sorted(wanted), np.uint64)
    if not len(keys):
        return
    left = _MAX_CANDIDATES
    for base in range(0, len(strings), _AT_ONCE):
        before = min(base, 8)
        part = b"\0" * (8 - before) + strings[base - before : base + _AT_ONCE]
        ends = np.flatnonzero(np.frombuffer(part, np.uint8)[8:] == 0)
        # At each byte the word that starts there; before an end, the name's last bytes are on top.
        words: npt.NDArray[np.uint64] = np.ndarray((len(part) - 7,), "<u8", part, strides=(1,))
        last = words[ends] >> np.uint64(8 * (8 - _END))
        place = np.minimum(np.searchsorted(keys, last), len(keys) - 1)
        hits = np.flatnonzero(keys[place] == last)[:left]
        left -= len(hits)
        yield from zip((ends[hits] + base).tolist(), last[hits].tolist(), strict=True)


def places_ending(
    strings: bytes, last: bytes, most: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Where strings with this end start and end, in their order."""
    starts: list[int] = []
    ends: list[int] = []
    at = strings.find(last)
    while at >= 0 and len(starts) < most:
        start = strings.rfind(b"\0", max(at - MAX_NAME, 0), at) + 1
        starts.append(start)
        ends.append(at + len(last) - 1)
        at = strings.find(last, at + 1)
    return np.array(starts, np.uint64), np.array(ends, np.uint64)
