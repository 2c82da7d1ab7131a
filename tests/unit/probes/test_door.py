"""Changes of probes: one at a time, each right after a look."""

import os
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cotenant.probes import door as module
from cotenant.probes.attach import Attachment
from cotenant.probes.door import Door
from cotenant.probes.memory_locks import HeldUp
from cotenant.probes.removals import Removals


class Locks:
    """Files that a lock is in the way of."""

    def __init__(self) -> None:
        self.held: set[int] = set()
        self.events: list[object] = []

    def wait_until_free(self, fd: int, seconds: float) -> None:
        self.events.append(("look", fd))
        until = time.monotonic() + min(seconds, 0.01)
        while fd in self.held:
            if time.monotonic() >= until:
                raise HeldUp([7])
            time.sleep(0.001)

    @contextmanager
    def during(self, files: Collection[int], what: str) -> Iterator[None]:
        self.events.append((what, sorted(files)))
        yield
        self.events.append("done")


@pytest.fixture
def locks() -> Locks:
    return Locks()


@pytest.fixture
def door(locks: Locks, monkeypatch: pytest.MonkeyPatch) -> Door:
    monkeypatch.setattr(module, "_FRESH_S", 60)
    return Door(locks, locks)  # type: ignore[arg-type]


def attachment() -> Attachment:
    return Attachment(1, os.dup(0), [os.dup(0)])


def test_each_change_comes_right_after_a_look(door: Door, locks: Locks) -> None:
    assert door.place(3, lambda: 41, 1) == 41
    assert locks.events == [("look", 3), ("placed", [3]), "done"]


def test_changes_of_one_file_that_follow_each_other_need_one_look(door: Door, locks: Locks) -> None:
    for fd in (3, 3, 5, 3):
        door.place(fd, lambda: None, 1)
    assert [event for event in locks.events if event[0] == "look"] == [
        ("look", 3), ("look", 5), ("look", 3),
    ]  # fmt: skip


def test_a_lock_that_is_kept_refuses_the_change(door: Door, locks: Locks) -> None:
    locks.held = {3}
    with pytest.raises(HeldUp, match="process 7 keeps"):
        door.place(3, lambda: 41, 0.05)
    assert door.place(5, lambda: 43, 0.05) == 43


def test_a_change_waits_for_a_lock_and_holds_up_no_other(door: Door, locks: Locks) -> None:
    locks.held = {3}
    placed: list[int] = []
    waiting = threading.Thread(target=lambda: door.place(3, lambda: placed.append(3), 60))
    waiting.start()
    door.place(5, lambda: placed.append(5), 60)
    locks.held = set()
    waiting.join(60)
    assert placed == [5, 3]


def test_no_other_change_waits_for_a_lock_in_the_way(
    door: Door, locks: Locks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a look waits for a lock, changes of other files go on."""
    placed: list[int] = []
    waits = locks.wait_until_free

    def look(fd: int, seconds: float) -> None:
        if fd == 3 and seconds > 0:
            door.place(5, lambda: placed.append(5), 1)
        waits(fd, seconds)

    monkeypatch.setattr(locks, "wait_until_free", look)
    locks.held = {3}
    with pytest.raises(HeldUp):
        door.place(3, lambda: placed.append(3), 0.05)
    with pytest.raises(HeldUp):
        door.remove([3], lambda _: placed.append(3))
    assert set(placed) == {5}


def test_probes_go_when_nothing_is_in_their_way(door: Door, locks: Locks) -> None:
    removals = Removals(door)
    held, free = attachment(), [attachment() for _ in range(19)]
    locks.held = {held.file}
    for one in (held, *free):
        removals.add(one)
    assert not removals.finish(0.2)
    assert all(one.empty for one in free)
    assert str(removals.held_up) == "process 7 keeps its memory locked: end that process"
    assert not held.empty
    locks.held = set()
    assert removals.finish(60)
    assert held.empty


def test_probes_go_anyway_when_the_patience_is_over(door: Door, locks: Locks) -> None:
    removals = Removals(door, patience_s=0)
    held = attachment()
    locks.held = {held.file}
    removals.add(held)
    assert removals.finish(60)
    assert held.empty


def test_what_has_no_probe_is_not_waited_for(door: Door, locks: Locks) -> None:
    empty = Attachment(1, os.dup(0))
    removals = Removals(door)
    removals.add(empty)
    assert removals.finish(0)
    assert empty.file == -1
    assert locks.events == []


def test_a_change_that_fails_leaves_the_door_open(door: Door) -> None:
    def fail() -> Any:
        raise OSError(22, "no")

    with pytest.raises(OSError, match="no"):
        door.place(3, fail, 1)
    assert door.place(3, lambda: 41, 1) == 41
