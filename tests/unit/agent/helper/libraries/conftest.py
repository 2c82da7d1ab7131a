"""Libraries whose files are all ours, and whose probes are nothing."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cotenant.agent.helper.fair_queue import PassedOver
from cotenant.agent.helper.libraries import libraries as module
from cotenant.agent.helper.libraries.libraries import Libraries
from cotenant.agent.helper.libraries.prober import Probes
from cotenant.agent.protocol.reports import Report
from cotenant.probes.attach import Attachment
from cotenant.probes.elf import BadElf
from cotenant.probes.inodes import Inode
from cotenant.probes.plan import Plan
from tests.unit.probes.memory import no_code


class Attached:
    """A prober whose probes are nothing."""

    code = no_code()

    def place(self, *_: Any) -> None:
        pass

    def withdraw(self, probes: Probes) -> None:
        probes.void = True

    def take(self, probes: Probes) -> tuple[Attachment, ...]:
        probes.void = True
        return ()


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
    if not file.exists():
        file.touch()
    fd = os.open(file, os.O_RDONLY)
    return libraries.consider(fd, str(file), tenant, mapped_ns=None)


def unread(libraries: Libraries, monkeypatch: pytest.MonkeyPatch, why: BadElf) -> list[Report]:
    """Has no file read from now on; what is told then."""
    told: list[Report] = []

    def fail(*_: Any) -> Plan | None:
        raise why

    monkeypatch.setattr(libraries, "_plan", fail)
    monkeypatch.setattr(libraries, "_tell", told.append)
    return told
