"""Asking for names: what a source does wrong is told, and the question asked again."""

import queue
import threading
from pathlib import Path

import pytest

from cotenant.agent.helper import naming as module
from cotenant.agent.helper.naming import Naming
from cotenant.agent.protocol.reports import Named, Trouble
from cotenant.identity.naming.names import Names
from cotenant.identity.walk import Mount

WAIT_S = 30
A, B, C = ("a" * 64, "b" * 64, "c" * 64)


class Knowing:
    """A resolver that knows everybody."""

    def serves(self, identity):
        return bool(identity.layers)

    def lookup(self, identity, path):
        return Names("knowing", name=path, confirmed=True)


class Moody(Knowing):
    """A resolver that fails at first."""

    def __init__(self):
        self.asked = 0

    def lookup(self, identity, path):
        self.asked += 1
        if self.asked == 1:
            raise RecursionError("too deep")
        return Names("moody", name="train")


@pytest.fixture
def told():
    return []


def test_a_source_that_fails_is_told_of_and_asked_again(told):
    named = threading.Event()

    def tell(report):
        told.append(report)
        if isinstance(report, Named):
            named.set()

    naming = Naming(tell, lambda key, names: None, Moody())
    naming.start()
    try:
        naming.ask(f"/docker/{A}")
        assert named.wait(WAIT_S)
    finally:
        naming.stop()
    trouble, answer = told
    assert trouble == Trouble("naming", f"cannot name /docker/{A}: too deep")
    assert answer.names.name == "train"


def test_a_thread_that_cannot_be_started_costs_nobody_a_name(told, monkeypatch):
    start, refused, named = threading.Thread.start, threading.Event(), threading.Event()

    def refuse(thread):
        if thread.name != "naming":
            refused.set()
            raise RuntimeError("can't start new thread")
        start(thread)

    def tell(report):
        told.append(report)
        if len(told) == 2:
            named.set()

    naming = Naming(tell, lambda key, names: None, Knowing())
    monkeypatch.setattr(threading.Thread, "start", refuse)
    naming.start()
    try:
        naming.ask(f"/docker/{A}")
        assert refused.wait(WAIT_S)
        monkeypatch.setattr(threading.Thread, "start", start)
        naming.ask(f"/docker/{B}")
        assert named.wait(WAIT_S)
    finally:
        naming.stop()
    assert sorted(report.names.name for report in told) == [f"/docker/{A}", f"/docker/{B}"]


@pytest.fixture
def hierarchies(tmp_path: Path) -> list[Mount]:
    """Two hierarchies with the same containers in them; one has a cgroup inside."""
    for number in (0, 4):
        for name in (f"docker/{A}/init", f"docker/{B}", "user.slice"):
            (tmp_path / str(number) / name).mkdir(parents=True)
    return [Mount(number, (), tmp_path / str(number), "/") for number in (0, 4)]


@pytest.fixture
def answers(hierarchies, monkeypatch):
    """A naming over these hierarchies, and what it tells."""
    monkeypatch.setattr(module, "_SURVEY_EVERY_S", 0.0)
    told = queue.SimpleQueue()
    naming = Naming(told.put, lambda key, names: None, Knowing(), lambda: hierarchies)
    naming.start()
    yield naming, told
    naming.stop()


def keys(told, count):
    """Of so many answers; each was asked for by the path of the container itself."""
    found = [told.get(timeout=WAIT_S) for _ in range(count)]
    assert [answer.names.name for answer in found] == [answer.key for answer in found]
    return sorted(answer.key for answer in found)


def test_a_survey_asks_once_about_every_container_that_is_there(answers):
    naming, told = answers
    naming.survey()

    assert keys(told, 2) == [f"/docker/{A}", f"/docker/{B}"]
    with pytest.raises(queue.Empty):
        told.get(timeout=0.2)


def test_the_next_survey_asks_about_what_is_new(answers, hierarchies):
    naming, told = answers
    naming.survey()
    keys(told, 2)
    (hierarchies[1].directory / f"docker/{B}").rename(hierarchies[1].directory / f"docker/{C}")
    naming.survey()

    assert keys(told, 1) == [f"/docker/{C}"]
    with pytest.raises(queue.Empty):
        told.get(timeout=0.2)


def test_a_survey_that_fails_is_told_of_and_names_go_on(answers, monkeypatch):
    naming, told = answers
    monkeypatch.setattr(naming, "_hierarchies", lambda: [][0])
    naming.survey()
    assert told.get(timeout=WAIT_S) == Trouble("naming", "IndexError: list index out of range")
    naming.ask(f"/docker/{A}")
    assert keys(told, 1) == [f"/docker/{A}"]
