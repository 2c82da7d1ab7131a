"""How many files of one tenant are probed at once."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cotenant.agent.helper import libraries as module
from cotenant.agent.helper.discovery.fair_queue import OURS, PassedOver
from cotenant.agent.helper.libraries import Libraries
from cotenant.agent.protocol.reports import LibraryReport, WorkPassedOver
from cotenant.errors import ProbeError
from cotenant.probes.changes import TooMany
from cotenant.probes.inodes import Inode
from cotenant.probes.plan import Plan


class Attached:
    """A prober whose probes are nothing."""

    code_program = -1

    def place(self, *_: Any) -> None:
        pass


@pytest.fixture
def passed_over() -> PassedOver:
    return PassedOver()


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch, passed_over: PassedOver) -> Iterator[Libraries]:
    """Every file is a library of ours."""
    monkeypatch.setattr(module, "real_inode", lambda _, fd: Inode(0, os.fstat(fd).st_ino, 0))
    monkeypatch.setattr(Libraries, "_awake", lambda *_: [])
    plan = Plan(("cudart",), None, (None,))  # type: ignore[arg-type]
    found = Libraries(Attached(), lambda *_: plan, -1, lambda _: None, passed_over)  # type: ignore[arg-type]
    yield found
    found.close()


def consider(libraries: Libraries, file: Path, tenant: str) -> bool:
    file.touch()
    fd = os.open(file, os.O_RDONLY)
    return libraries.consider(fd, str(file), tenant, mapped_ns=None)


def test_a_tenant_has_so_many_files_probed_and_all_others_theirs(
    libraries: Libraries, passed_over: PassedOver, tmp_path: Path
) -> None:
    found = [consider(libraries, tmp_path / f"s{n}", "storm") for n in range(259)]
    assert found == [True] * 256 + [False] * 3
    # What is probed already is nobody's twice.
    assert consider(libraries, tmp_path / "s0", "storm")
    assert consider(libraries, tmp_path / "s0", "calm")
    assert consider(libraries, tmp_path / "c0", "calm")
    assert all(consider(libraries, tmp_path / f"o{n}", OURS) for n in range(307))
    assert len(libraries) == 256 + 1 + 307
    assert passed_over.take_news() == WorkPassedOver({"libraries": {"storm": 3}})


def test_a_file_is_probed_again_when_there_is_room(libraries: Libraries, tmp_path: Path) -> None:
    for n in range(256):
        assert consider(libraries, tmp_path / f"s{n}", "storm")
    assert not consider(libraries, tmp_path / "more", "storm")
    libraries.sweep(set(), linger_ns=0)
    assert len(libraries.sweep(set(), linger_ns=0)) == 256
    assert consider(libraries, tmp_path / "more", "storm")


def test_descriptors_run_out_for_nobody_but_who_takes_most(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(libraries, "_descriptors_max", 16)
    storm = [consider(libraries, tmp_path / f"s{n}", "storm") for n in range(7)]
    assert storm == [True] * 5 + [False] * 2
    assert consider(libraries, tmp_path / "c0", "calm")


class Refusing(Attached):
    """A prober that fails so many times."""

    def __init__(self, failures: int, error: ProbeError) -> None:
        self.left = failures
        self._error = error

    def place(self, *_: Any) -> None:
        if self.left:
            self.left -= 1
            raise self._error


INTERRUPTED = ProbeError("cannot probe: Interrupted system call")


@pytest.mark.parametrize(
    ("failures", "error", "attached"),
    [(1, INTERRUPTED, 1), (3, INTERRUPTED, 1), (4, INTERRUPTED, 0), (1, TooMany("of them"), 0)],
)
def test_a_failure_in_passing_does_not_leave_a_library_without_probes(
    failures: int,
    error: ProbeError,
    attached: int,
    libraries: Libraries,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(libraries, "_prober", Refusing(failures, error))
    told: list[LibraryReport] = []
    monkeypatch.setattr(libraries, "_tell", told.append)
    consider(libraries, tmp_path / "s0", "calm")
    assert len(libraries) == len([about for about in told if about.attached]) == attached
    assert len(told) == 1
