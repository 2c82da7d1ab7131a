"""Where simulated tenants write: nowhere that somebody else prepared."""

import os

import pytest

from cotenant.errors import CotenantError
from cotenant.sim.tenant import Shared, demo_tenants

TENANTS = demo_tenants(1)


def test_a_second_demo_writes_beside_the_first(tmp_path):
    shared = Shared(tmp_path / "below" / "store.sim")
    for _ in range(2):
        shared.prepare(TENANTS)
    assert shared.device.is_dir()
    assert {path.name for path in (shared.directory / "truth").iterdir()} == {
        tenant.name for tenant in TENANTS
    }


def test_ranks_of_one_demo_meet_nowhere_that_those_of_another_met():
    met = [
        {word for command in tenants[0].commands for word in command if word.endswith(".id")}
        for tenants in (demo_tenants(1), demo_tenants(1))
    ]
    assert [len(one) for one in met] == [1, 1]
    assert met[0] != met[1]


@pytest.mark.parametrize("name", ["", "device", "truth", "truth/train"])
def test_a_link_is_not_followed(tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shared = Shared(tmp_path / "store.sim")
    link = shared.directory / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(elsewhere)
    with pytest.raises(CotenantError, match="is not a directory, or other users can write to it"):
        shared.prepare(TENANTS)
    assert list(elsewhere.iterdir()) == []


def test_a_directory_that_others_may_write_to_is_refused(tmp_path):
    shared = Shared(tmp_path / "store.sim")
    shared.directory.mkdir()
    shared.directory.chmod(0o777)
    with pytest.raises(CotenantError, match="remove it, or choose another --store"):
        shared.prepare(TENANTS)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_directory_of_somebody_else_is_refused(tmp_path):
    shared = Shared(tmp_path / "store.sim")
    shared.directory.mkdir()
    os.chown(shared.directory, 65534, -1)
    with pytest.raises(CotenantError, match="is not a directory, or other users can write to it"):
        shared.prepare(TENANTS)
