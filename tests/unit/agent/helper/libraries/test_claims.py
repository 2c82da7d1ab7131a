"""Who looks at a file: what keeps one tenant from having it probed keeps no other."""

import threading
from pathlib import Path

import pytest

from cotenant.agent.helper.libraries import claims
from cotenant.agent.helper.libraries.libraries import Libraries
from cotenant.probes.elf import NotRead
from cotenant.probes.plan import Plan
from tests.unit.agent.helper.libraries.conftest import consider, unread


def test_what_one_tenant_may_not_have_probed_another_may(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for number in range(256):
        consider(libraries, tmp_path / f"s{number}", "storm")
    assert consider(libraries, tmp_path / "shared", "storm") is None
    assert consider(libraries, tmp_path / "shared", "calm")
    plan = libraries._plan
    unread(libraries, monkeypatch, NotRead("takes too much to read"))
    monkeypatch.setattr(libraries.unprobed, "_mappers", lambda _: {})
    assert consider(libraries, tmp_path / "large", "other") is None
    monkeypatch.setattr(libraries, "_plan", plan)
    assert consider(libraries, tmp_path / "large", "other") is None  # Not for a minute.
    assert consider(libraries, tmp_path / "large", "calm")


def test_who_waits_for_his_turn_to_read_a_file_lets_others_go_first(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan, reads, go_on = libraries._plan, threading.Event(), threading.Event()

    def slow(tenant: str, fd: int) -> Plan | None:
        if tenant == "storm":
            reads.set()
            go_on.wait(20)
        return plan(tenant, fd)

    monkeypatch.setattr(libraries, "_plan", slow)
    (tmp_path / "shared").touch()
    found: list[bool | None] = []

    def storm() -> None:
        found.append(consider(libraries, tmp_path / "shared", "storm"))

    thread = threading.Thread(target=storm)
    thread.start()
    assert reads.wait(20)
    assert consider(libraries, tmp_path / "shared", "calm") is None
    monkeypatch.setattr(claims, "_PATIENCE_S", 0.0)
    assert consider(libraries, tmp_path / "shared", "calm")
    go_on.set()
    thread.join(20)
    assert found == [None]
    (library,) = libraries._probed.values()
    assert library.tenant == "calm"
