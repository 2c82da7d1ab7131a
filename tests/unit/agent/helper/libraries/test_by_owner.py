"""Work on tenants' files: whoever's file does not answer holds up nobody else."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cotenant.agent.helper.fair_queue import OURS
from cotenant.agent.helper.libraries import by_owner as module
from cotenant.agent.helper.libraries.by_owner import ByOwner
from cotenant.agent.helper.libraries.claims import OpenFile, file_state
from cotenant.agent.helper.libraries.probed_library import ProbedLibrary
from cotenant.agent.helper.workers import Workers
from cotenant.probes.plan import Plan


def test_one_that_never_answers_is_waited_for_in_vain_and_all_others_are_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.2)
    free, placed = threading.Event(), set()

    def place(tenant: str) -> Callable[[], bool]:
        def attempt() -> bool:
            if tenant == "hanging":
                free.wait(20)
            placed.add(tenant)
            return True

        return attempt

    workers: Workers[Callable[[], None]] = Workers("test", lambda _, work: work())
    workers.start()
    owners = ByOwner()
    owners.put = workers.put
    assert not owners.all_done((who, 7, place(who)) for who in ("hanging", "calm", OURS))
    assert placed == {"calm", OURS}
    assert not owners.all_done([("calm", 7, place("calm"))])  # One is still owed.
    free.set()
    workers.stop(20)
    assert placed == {"calm", OURS, "hanging"}
    assert owners.all_done([])


def test_what_fails_or_finds_no_room_is_not_done() -> None:
    owners = ByOwner()
    assert not owners.all_done([("a", 7, lambda: True), ("b", 7, lambda: False)])
    owners.put = lambda *_: False
    assert not owners.all_done([("a", 7, lambda: True)])
    assert owners.all_done([(OURS, 7, lambda: True)])


def test_what_waits_for_its_turn_is_not_handed_over_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.0)
    queued: list[Callable[[], None]] = []
    owners = ByOwner()
    owners.put = lambda _, work: not queued.append(work)  # type: ignore[func-returns-value]
    for _ in range(7):
        assert not owners.all_done([("a", 7, lambda: True)])
    assert len(queued) == 1
    queued.pop()()
    assert owners.all_done([])
    # What found no room does not wait.
    owners.put = lambda *_: False
    for _ in range(7):
        assert not owners.all_done([("a", 7, lambda: True)])
    owners.put = lambda _, work: not work()  # type: ignore[func-returns-value]
    assert owners.all_done([("a", 7, lambda: True)])


def test_a_file_that_somebody_is_at_is_not_closed_under_him(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    fd = os.open(tmp_path / "file", os.O_RDONLY)
    library = ProbedLibrary(
        OpenFile(fd, "file", "a", file_state(fd), None, False), Plan((), None, ())
    )
    there, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with library.probes.busy:
            there.set()
            leave.wait(20)

    thread = threading.Thread(target=stay)
    thread.start()
    there.wait(20)
    for patience_s in (0.05, 0.0):
        library.close(patience_s)
        os.fstat(fd)
    leave.set()
    thread.join()
    library.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
