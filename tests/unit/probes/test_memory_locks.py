"""When a probe may be placed or removed: at a moment when no lock is in its way."""

import itertools
from collections.abc import Iterator

import pytest

from cotenant.probes import memory_locks as module
from cotenant.probes.memory_locks import HeldUp, MemoryLocks
from tests.unit.probes.memory import FD, MEMORY, PROGRAM, READ, WRITE, Looks, Mapped, locks_of


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Iterator[Looks]:
    made = Looks()
    monkeypatch.setattr(module, "syscalls", made)
    return made


def test_where_nothing_is_locked_one_look_will_do(looks: Looks) -> None:
    locks_of(7).wait_until_free(FD, 1)
    assert looks.looks == 1


def test_locks_of_processes_without_the_file_are_not_in_the_way(looks: Looks) -> None:
    looks.locked = {11: (WRITE, 99)}
    locks_of(7).wait_until_free(FD, 0)
    with pytest.raises(HeldUp, match="process 11 keeps its memory locked: end that process"):
        locks_of(7, 11).wait_until_free(FD, 0)


def test_a_fork_with_locked_memory_is_in_the_way_of_every_file(looks: Looks) -> None:
    looks.locked, looks.forking = {13: (READ, 99)}, {13}
    with pytest.raises(HeldUp, match="process 13 "):
        locks_of(7).wait_until_free(FD, 1)


@pytest.mark.parametrize("owners", [(99, 99), (99, 77)])
def test_readers_that_follow_each_other_may_be_one_that_stays(
    looks: Looks, owners: tuple[int, int]
) -> None:
    """The lock has its last reader as owner, and the first may have it still."""
    looks.script = ({7: (READ, owner)} for owner in itertools.cycle(owners))
    with pytest.raises(HeldUp, match="process 7 "):
        locks_of(7).wait_until_free(FD, 1)


def test_a_writer_that_stays_is_waited_for(looks: Looks, clock: Clock) -> None:
    looks.script = itertools.chain(itertools.repeat({7: (WRITE, 99)}, 700), itertools.repeat({}))
    locks_of(7).wait_until_free(FD, 1)
    assert clock.now == pytest.approx(100.7)


def test_writers_that_follow_each_other_are_brief(looks: Looks, clock: Clock) -> None:
    looks.script = ({7: (WRITE, owner)} for owner in itertools.count(1))
    locks_of(7).wait_until_free(FD, 1)
    assert clock.now < 100.1


def test_a_moment_without_a_lock_is_waited_for_first(looks: Looks, clock: Clock) -> None:
    locked = ({7: (WRITE, owner)} for owner in range(1, 20))
    looks.script = itertools.chain(locked, itertools.repeat({}))
    locks_of(7).wait_until_free(FD, 1)
    assert looks.looks == 20


def test_who_cannot_be_told_to_have_the_file_counts(looks: Looks) -> None:
    looks.locked = {11: (WRITE, 99)}
    with pytest.raises(HeldUp, match="process 11 "):
        MemoryLocks(PROGRAM, None).wait_until_free(FD, 1)


def test_locks_that_are_kept_are_told_from_those_in_use(looks: Looks) -> None:
    kept = {7: (READ, 99)}
    looks.script = (kept | {11: (WRITE, n), 13: (n % 2, 5)} for n in itertools.count(1))
    assert locks_of().kept().keys() == {7 + MEMORY}


def test_each_address_space_has_one_thread_that_stands_for_it(looks: Looks) -> None:
    assert locks_of().pids({7 + MEMORY, 13 + MEMORY, 99}) == [7, 13]
    assert locks_of().spaces() == {pid + MEMORY for pid in (7, 11, 13)}


def test_another_process_looks_with_what_was_sent_to_it() -> None:
    locks = MemoryLocks(PROGRAM, Mapped())  # type: ignore[arg-type]
    received = MemoryLocks.received(locks.fds)
    assert received.fds == (PROGRAM, 1, 2, 3)
    assert MemoryLocks.received((PROGRAM,)).mappers is None
