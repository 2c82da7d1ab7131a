"""The native drain, with keys that a tenant chose to make it slow."""

import os
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from cotenant._native import Ring
from tests.virtual.rings import FakeRing

KEYS = 8_191
WORDS = 8
RECORD = np.dtype([("kind", "<u8"), ("key", "<u8", WORDS)])
KIND = 3
SMALL = 1 << 16
MASK = 2**64 - 1

Keys = npt.NDArray[np.uint64]


def mix(mixed: int, word: int) -> int:
    """One step of a hash without a secret, as one might guess it."""
    mixed = (mixed ^ word) * 0xFF51AFD7ED558CCD & MASK
    return mixed ^ mixed >> 32


def cancelling(key: Keys) -> None:
    """The fifth word undoes what the first did in a lane that begins with a known number."""
    for at, first in enumerate(key[:, 0].tolist()):
        key[at, 4] = mix(0x9E3779B97F4A7C15, first)


def in_high_bits(key: Keys) -> None:
    key[:, 5] = key[:, 0] << np.uint64(51)
    key[:, 0] = 0


def of_one_sum(key: Keys) -> None:
    key[:, 1] = np.uint64(MASK) - key[:, 0]


def of_one_product(key: Keys) -> None:
    """Words that are multiplied with each other, one of them 0."""
    key[:, 1], key[:, 2], key[:, 4] = 0, key[:, 0], key[:, 0]


def doubled(key: Keys) -> None:
    for word in range(1, WORDS):
        key[:, word] = key[:, 0]


def taken(key: Keys) -> tuple[float, bytes, bytes]:
    """How long the drain takes for records with these keys, and what it makes of them."""
    ring = FakeRing(1 << 20)
    reader = Ring(ring.fd, 1 << 20, 0)
    reader.expect(KIND, [], [[(8, 8 * WORDS)]])
    records = np.zeros(len(key), RECORD)
    records["kind"], records["key"] = KIND, key
    ring.extend(records)
    began = time.perf_counter()
    reader.drain(reader.position())
    took = time.perf_counter() - began
    rows, _, ((codes, values),) = reader.take(KIND)
    assert rows == len(key)
    return took, codes, values


@pytest.mark.parametrize("choose", [cancelling, in_high_bits, of_one_sum, of_one_product, doubled])
def test_no_choice_of_keys_makes_the_drain_slow(choose: Callable[[Keys], None]) -> None:
    chosen = np.zeros((KEYS, WORDS), np.uint64)
    chosen[:, 0] = np.arange(KEYS)
    choose(chosen)
    any_other = np.random.default_rng(7).integers(0, MASK, (KEYS, WORDS), np.uint64)
    ratios = []
    for _ in range(5):
        plain = taken(any_other)[0]
        took, codes, values = taken(chosen)
        assert np.frombuffer(codes, np.int32).tolist() == list(range(KEYS))
        assert np.frombuffer(values, np.uint64).tolist() == chosen.ravel().tolist()
        ratios.append(took / plain)
    assert min(ratios) < 8


@pytest.mark.parametrize("width", range(8, 264, 8))
def test_keys_of_every_width_are_told_apart_by_each_of_their_words(width: int) -> None:
    words = width // 8
    record = np.dtype([("kind", "<u8"), ("key", "<u8", (words,))])
    ring = FakeRing(1 << 20)
    reader = Ring(ring.fd, 1 << 20, 0)
    reader.expect(KIND, [], [[(8, width)]])
    records = np.zeros(2 * words + 2, record)
    records["kind"] = KIND
    for at in range(words):
        records["key"][at + 1, at] = 1
    records["key"][words + 1 :] = records["key"][: words + 1]
    ring.extend(records)
    reader.drain(reader.position())
    _, _, ((codes, _),) = reader.take(KIND)
    assert np.frombuffer(codes, np.int32).tolist() == [*range(words + 1)] * 2


def paused(ring: FakeRing, others: tuple[Ring, ...], stop: int) -> float:
    """For how long a reader pauses that may do so for a minute."""
    began = time.monotonic()
    Ring(ring.fd, SMALL, 0).pause(others, stop, 10, 6000)
    return time.monotonic() - began


def test_a_pause_ends_when_a_ring_fills_or_it_is_time_to_stop() -> None:
    full, empty, stop = FakeRing(SMALL), FakeRing(SMALL), os.eventfd(0)
    full.add(bytes(SMALL // 256))
    assert paused(full, (), stop) < 30
    assert paused(empty, (Ring(full.fd, SMALL, 0),), stop) < 30
    os.eventfd_write(stop, 1)
    assert paused(empty, (Ring(empty.fd, SMALL, 0),), stop) < 30
    os.close(stop)


def test_a_pause_without_records_takes_all_its_time() -> None:
    stop = os.eventfd(0)
    ring = FakeRing(SMALL)
    ring.add(bytes(SMALL // 256 - 16))
    began = time.monotonic()
    Ring(ring.fd, SMALL, 0).pause((), stop, 10, 7)
    assert time.monotonic() - began >= 0.07
    os.close(stop)
