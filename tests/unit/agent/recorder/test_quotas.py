"""What tenants were refused, told by where their cgroups are or were."""

import errno
from typing import Any

import numpy as np
import pytest

from cotenant.agent.recorder.quotas import Quotas
from cotenant.identity.ids import NOBODY
from cotenant.schema.events import ENUMS
from cotenant.schema.layouts import FREED, USAGE

NUMBERS = {name: number for number, name in ENUMS["quota"].items()}


class Usage:
    """The kernel's map, as far as it is read here."""

    def __init__(self) -> None:
        self.refused: dict[int, dict[str, int]] = {}

    def items(self) -> tuple[bytes, bytes]:
        values = np.zeros(len(self.refused), USAGE)
        for place, counts in enumerate(self.refused.values()):
            for name, n in counts.items():
                values["refused"][place, NUMBERS[name]] = n
        return np.array(list(self.refused), np.uint64).tobytes(), values.tobytes()

    def lookup(self, key: bytes) -> bytes | None:
        there = int.from_bytes(key, "little") in self.refused
        return bytes(USAGE.itemsize) if there else None


class Freed:
    """The kernel's map, with room for so many."""

    def __init__(self) -> None:
        self.entries: dict[int, bytes] = {}
        self.most = 1 << 14
        self.fails_with = errno.E2BIG

    def update(self, key: bytes, value: bytes) -> None:
        whose = int.from_bytes(key, "little")
        if whose not in self.entries and len(self.entries) >= self.most:
            raise OSError(self.fails_with, "update a map")
        self.entries[whose] = value

    def of(self, name: str) -> dict[int, int]:
        counts = {k: np.frombuffer(v, FREED)["entries"][0] for k, v in self.entries.items()}
        return {whose: int(mine[NUMBERS[name]]) for whose, mine in counts.items()}


class Host:
    """A host on which cgroups come and go."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.paths: dict[tuple[int, int], str] = {}
        self.freed = Freed()
        maps: Any = {"usage": self.usage, "freed": self.freed}
        self.quotas = Quotas(maps)

    def told(self) -> dict[str, dict[str, int]]:
        return self.quotas.refused(lambda *cgroup: self.paths.get(cgroup, ""))


def test_who_comes_to_the_place_of_another_is_told_beside_it() -> None:
    host = Host()
    host.paths = {(0, 7): "/a"}
    host.usage.refused = {7: {"frames": 5}}
    assert host.told() == {"frames": {"/a": 5}}
    # Another cgroup at the same path, while the first is still counted.
    host.paths[0, 8] = "/a"
    host.usage.refused[8] = {"frames": 3}
    assert host.told() == {"frames": {"/a": 8}}
    host.usage.refused = {8: {"frames": 4, "owners": 2}}
    assert host.told() == {"frames": {"/a": 9}, "owners": {"/a": 2}}
    # Its number again, from nothing.
    host.usage.refused = {8: {"frames": 1}}
    assert host.told() == {"frames": {"/a": 10}, "owners": {"/a": 2}}


def test_a_tenant_that_is_gone_goes_by_its_last_path() -> None:
    host = Host()
    host.paths = {(0, 7): "/a"}
    host.usage.refused = {7: {"frames": 5}}
    host.told()
    host.paths.clear()
    host.usage.refused[7]["frames"] = 7
    assert host.told() == {"frames": {"/a": 7}}


def test_a_cgroup_that_is_not_known_yet_is_asked_for_once_more() -> None:
    host = Host()
    host.usage.refused = {7: {"frames": 5}, NOBODY: {"requests": 1}}
    assert host.told() == {}
    host.paths = {(0, 7): "/a"}
    assert host.told() == {"frames": {"/a": 5}, "requests": {"unknown": 1}}
    assert host.told() == {"frames": {"/a": 5}, "requests": {"unknown": 1}}


def test_what_is_freed_of_a_tenant_that_is_gone_is_counted_for_everybody_alone() -> None:
    host = Host()
    host.usage.refused = {7: {}}
    host.quotas.freed("totals", 7)
    host.quotas.freed("totals", 8)
    assert host.freed.of("totals") == {7: 1, 0: 2}
    # The helper lets go of it, and it is counted anew should it be back.
    host.usage.refused = {}
    del host.freed.entries[7]
    host.told()
    host.quotas.freed("totals", 7)
    assert host.freed.of("totals") == {0: 3}
    host.usage.refused = {7: {}}
    host.quotas.freed("totals", 7)
    assert host.freed.of("totals") == {7: 1, 0: 4}


def test_a_map_without_room_is_told_later_and_ends_nothing() -> None:
    host = Host()
    host.usage.refused = {7: {}}
    host.freed.most = 0
    host.quotas.freed("contention", 7)
    host.freed.most = 2
    host.quotas.freed("contention", 7)
    assert host.freed.of("contention") == {7: 2, 0: 2}
    host.freed.most, host.freed.fails_with = 0, errno.EPERM
    host.freed.entries.clear()
    with pytest.raises(PermissionError):
        host.quotas.freed("contention", 7)
