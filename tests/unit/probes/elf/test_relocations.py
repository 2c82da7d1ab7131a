"""Packed lists of what the loader writes, against the loader's own way through them."""

import random
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from cotenant.probes.elf.headers import BadElf, ProgramHeader
from cotenant.probes.elf.relocations import Words, packed_places

CODE = (ProgramHeader(1, 5, 0, 0x1000, 0x400), ProgramHeader(1, 5, 0, 0x8000, 0x10))


def as_loaded(words: list[int]) -> Iterator[int]:
    """As glibc goes through them, word by word."""
    where = None
    for word in words:
        if word % 2 == 0:
            yield word
            where = (word + 8) % (1 << 64)
        elif where is not None:
            yield from ((where + 8 * bit) % (1 << 64) for bit in range(63) if word >> bit + 1 & 1)
            where = (where + 63 * 8) % (1 << 64)


def in_code(places: Iterator[int] | list[int]) -> set[int]:
    return {at for at in places if any(at - s.address in range(s.file_size) for s in CODE)}


def found(words: list[int]) -> set[int]:
    tables: list[Words] = [np.array(words, np.uint64)]
    return in_code([at for part in packed_places(tables, CODE) for at in part.tolist()])


def test_each_word_of_code_is_found_that_the_loader_writes() -> None:
    chance = random.Random(11)
    met = 0
    for _ in range(300):
        words = []
        for _ in range(chance.randrange(20)):
            near = chance.randrange(0x600, 0x1800) if chance.random() < 0.8 else 0x8000
            words.append(chance.choice((near * 2, near // 8 * 8, chance.getrandbits(64) & ~1)))
            words += [chance.getrandbits(64) | 1 for _ in range(chance.randrange(4))]
        expected = in_code(as_loaded(words))
        assert found(words) == expected
        met += len(expected)
    assert met > 3000


@pytest.mark.parametrize("words", [[], [3], [3, 0x1008, 3], [2**64 - 2, 2**64 - 1]])
def test_a_list_that_no_linker_makes_is_read_as_well(words: list[int]) -> None:
    assert found(words) == in_code(as_loaded(words))


def test_what_is_not_about_code_takes_no_memory() -> None:
    """Data of a library may have millions of addresses."""
    words = np.full(1_000_003, 2**64 - 1, np.uint64)
    words[0] = 1 << 32
    tracemalloc.start()
    try:
        places = list(packed_places([words], CODE))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(map(len, places)) == 1
    assert peak < 10 * words.nbytes


def test_code_that_is_written_to_all_over_is_refused() -> None:
    pair = np.array([0x1000, 2**64 - 1], np.uint64)
    most = np.tile(pair, 1 << 15)
    places = np.concatenate(list(packed_places([most, most], CODE)))
    assert len(np.unique(places)) == 64
    with pytest.raises(BadElf, match="too much code"):
        list(packed_places([most, most, pair], CODE))
