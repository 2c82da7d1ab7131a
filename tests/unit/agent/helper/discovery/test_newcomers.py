"""Processes at home cost one call a look; those that leave it are searched."""

import os
import subprocess
import time
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant.agent.helper.discovery import newcomers as module
from cotenant.agent.helper.discovery.mounts import mount_namespace
from cotenant.agent.helper.discovery.newcomers import Look, Newcomers
from cotenant.agent.helper.fair_queue import tenant_of
from cotenant.agent.helper.timetable import Timetable

WAIT_S = 20


class Work:
    """Takes what is put."""

    def __init__(self) -> None:
        self.looks: list[tuple[str, Any, str]] = []
        self.jobs: list[tuple[str, Any]] = []
        self._roots: Any = SimpleNamespace(
            home=mount_namespace(), job=lambda pid, tenant: (pid, tenant)
        )
        self.newcomers = Newcomers(
            self._roots,
            Timetable(),
            lambda *item: self.looks.append(item),
            lambda *item: self.jobs.append(item),
        )

    def tend_all(self) -> int:
        """As often as it is due; how often that was."""
        turns, until = 0, time.monotonic() + WAIT_S
        while (wait_s := self.newcomers.patience_s()) < WAIT_S:
            assert time.monotonic() < until
            time.sleep(wait_s)
            self.newcomers.tend()
            turns += 1
        return turns


def test_a_process_that_stays_at_home_is_a_job_in_the_end() -> None:
    work, me = Work(), os.getpid()
    work.newcomers.started(me)
    assert work.tend_all() >= len(module._LOOK_AGAIN_S) - 1
    assert (work.looks, work.jobs) == ([], [(tenant_of(me), (me, tenant_of(me)))])


def test_a_process_that_leaves_home_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    work, me = Work(), os.getpid()
    work.newcomers.started(me)
    monkeypatch.setattr(module, "mount_namespace", lambda _: 0)
    assert work.tend_all() == 1
    [(tenant, look, what)] = work.looks
    assert (tenant, what) == (tenant_of(me), "looks")
    assert (look.pid, look.attempt) == (me, 1)


def test_processes_that_are_gone_leave_nothing_to_do() -> None:
    work = Work()
    with subprocess.Popen(["true"]) as process:
        process.wait()
    for _ in range(3):
        work.newcomers.started(process.pid)
    work.tend_all()
    assert (work.looks, work.jobs) == ([], [])
    assert not work.newcomers._chains


def test_a_later_step_of_a_process_replaces_the_search_after_an_earlier_one() -> None:
    work, me = Work(), os.getpid()
    work.newcomers.started(me)
    work.newcomers.entered(me)
    work.tend_all()
    assert work.jobs == []
    [(_, look, _)] = work.looks
    done: list[str] = []
    work.newcomers._roots.process = lambda *_: iter(())
    work.newcomers.look("tenant", Look(me, look.chain - 1), lambda *_: done.append("earlier"))
    work.newcomers.look("tenant", look, lambda *_: done.append("later"))
    assert done == ["later"]
