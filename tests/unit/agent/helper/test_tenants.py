"""What the kernel keeps of each tenant goes with it, also if it comes back later."""

import mmap
import os
from types import SimpleNamespace

import pytest

from cotenant.agent.helper import tenants
from cotenant.agent.helper.tenants import Tenants, key_of
from cotenant.identity.ids import NOBODY
from cotenant.schema.constants import MAPS, TENANT_HOST

PATH = "/system.slice/a.service"
EVERYBODY = bytes(8)
STAYING = (EVERYBODY, key_of(0, TENANT_HOST), NOBODY.to_bytes(8, "little"))
OTHER = key_of(0, 8)


class Kernel:
    """Its maps, by their names for descriptors, and its clock."""

    def __init__(self):
        self.maps = {name: {} for name in ("tenants", "told", "usage", "freed", "resting")}
        self.now = 0.0

    def put(self, name, *keys):
        for key in keys:
            self.maps[name][key] = bytes(MAPS[name][1])

    def items(self, name, key_bytes, value_bytes):
        assert (key_bytes, value_bytes) == MAPS[name]
        return b"".join(self.maps[name]), b"".join(self.maps[name].values())


@pytest.fixture
def kernel(monkeypatch):
    kernel = Kernel()
    monkeypatch.setattr(tenants, "time", SimpleNamespace(monotonic=lambda: kernel.now))
    calls = {
        "map_update": lambda name, key, value: kernel.maps[name].update({key: value}),
        "map_delete": lambda name, key: kernel.maps[name].pop(key, None),
        "map_lookup": lambda name, _, key: kernel.maps[name].get(key),
        "map_items": kernel.items,
    }
    for name, call in calls.items():
        monkeypatch.setattr(tenants.syscalls, name, call)
    return kernel


@pytest.fixture
def kept(kernel):
    page = os.memfd_create("controls")
    os.truncate(page, mmap.PAGESIZE)
    return Tenants({name: name for name in kernel.maps} | {"controls": page}, hierarchies=list)


def test_what_comes_back_of_a_tenant_that_is_gone_goes_again(kernel, kept):
    kept.born(0, 7, PATH)
    kept.born(0, 8, "/system.slice/b.service")
    mine = key_of(0, 7)
    for name in ("usage", "freed", "resting"):
        kernel.put(name, mine, OTHER, *STAYING)
    kept.gone(0, 7)
    kernel.now = 59.0
    kept.tend()
    assert mine in kernel.maps["tenants"]
    kernel.now = 61.0
    kept.tend()
    assert not any(mine in entries for entries in kernel.maps.values())
    # A connection of its closes late: the programs make an entry again.
    for name in ("usage", "freed", "resting"):
        kernel.put(name, mine)
    for now in (62.0, 100.0, 121.5):
        kernel.now = now
        kept.tend()
        assert mine in kernel.maps["usage"]  # The recorder reads it first.
    kernel.now = 182.0
    kept.tend()
    for name in ("usage", "freed", "resting"):
        assert set(kernel.maps[name]) == {OTHER, *STAYING}


def test_entries_are_looked_through_once_a_minute(kernel, kept, monkeypatch):
    looked = []
    nothing = b"", b""
    monkeypatch.setattr(
        tenants.syscalls, "map_items", lambda name, *_: looked.append(name) or nothing
    )
    for _ in range(121):
        kernel.now += 1.0
        kept.tend()
    assert looked == ["usage", "freed", "resting"] * 2
