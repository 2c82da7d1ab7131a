"""What tenants were refused, told by where their cgroups are or were."""

from typing import Any

import numpy as np

from cotenant.agent.recorder.quotas import Quotas
from cotenant.identity.ids import NOBODY
from cotenant.schema.events import ENUMS
from cotenant.schema.layouts import USAGE

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


class Host:
    """A host on which cgroups come and go."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.paths: dict[tuple[int, int], str] = {}
        maps: Any = {"usage": self.usage}
        self._quotas = Quotas(maps)

    def told(self) -> dict[str, dict[str, int]]:
        return self._quotas.refused(lambda *cgroup: self.paths.get(cgroup, ""))


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
