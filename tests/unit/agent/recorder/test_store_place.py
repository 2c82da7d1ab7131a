"""A store that lies where its writer could not go by name."""

import os
from pathlib import Path

import pytest

from cotenant.agent.recorder.store_place import StorePlace
from cotenant.errors import StoreError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can close a way to others")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    made = tmp_path / "closed" / "store"
    made.mkdir(parents=True)
    return made


def reached(store: Path, *, hidden: bool) -> StorePlace:
    """As another user would reach it: ours cannot be kept out, so another is put in its place."""
    fd = os.open(store, os.O_RDONLY | os.O_DIRECTORY)
    return StorePlace.reached(store.with_name("nowhere") if hidden else store, fd)


def test_what_can_be_reached_by_its_name_is(store: Path) -> None:
    place = reached(store, hidden=False)
    assert (place.path, place.told("cannot write to /proc/self/fd/7")) == (
        store,
        "cannot write to /proc/self/fd/7",
    )
    place.check()


def test_what_cannot_is_reached_all_the_same_and_called_by_its_name(store: Path) -> None:
    place = reached(store, hidden=True)
    (place.path / "file").write_text("written")
    assert (store / "file").read_text() == "written"
    assert place.told(f"cannot write {place.path}/file") == f"cannot write {place.name}/file"
    assert place.told(None) is None
    with (
        pytest.raises(StoreError, match=f"^{place.name} is full$"),
        place.named(),
    ):
        raise StoreError(f"{place.path} is full")


@pytest.mark.parametrize("how", ["moved", "deleted"])
def test_it_is_gone_when_it_was_moved_or_deleted(store: Path, how: str) -> None:
    place = reached(store, hidden=True)
    place.check()
    store.rename(store.with_name("elsewhere")) if how == "moved" else store.rmdir()
    with pytest.raises(StoreError, match="is gone; recording stops"):
        place.check()
