"""Every place of a name is found, in one pass, and no other."""

import random

import pytest

from cotenant.probes.elf import strings as module
from cotenant.probes.elf.strings import string_places

NAMES = {b"cuInit", b"cuMemAlloc_v2", b"cuLaunchKernel", b"cudaLaunchKernel", b"ncclAllReduce"}


def plainly(strings: bytes, wanted: set[bytes]) -> dict[int, bytes]:
    found = {}
    for name in wanted:
        at = strings.find(name + b"\0")
        while at >= 0:
            found[at] = name
            at = strings.find(name + b"\0", at + 1)
    return found


@pytest.mark.parametrize("at_once", [1 << 20, 7, 64])
def test_names_are_found_as_a_plain_search_finds_them(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    chance = random.Random(23)
    words = [*NAMES, b"a", b"", b"LaunchKernel", b"xxcuInit", b"cuInitx", b"my_cudaLaunchKernel"]
    for _ in range(101):
        strings = b"\0".join(chance.choice(words) for _ in range(17))
        strings += chance.choice((b"", b"\0"))
        assert string_places(strings, NAMES) == plainly(strings, NAMES)


def test_a_name_that_is_repeated_without_end_is_found_a_few_times() -> None:
    assert len(string_places(b"cuInit\0" * 1009, NAMES)) == 64
