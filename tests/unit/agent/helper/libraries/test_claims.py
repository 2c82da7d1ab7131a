"""Who looks at a file: what keeps one tenant from having it probed keeps no other."""

import errno
import os
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cotenant.agent.helper.fair_queue import PassedOver
from cotenant.agent.helper.libraries import claims
from cotenant.agent.helper.libraries import libraries as module
from cotenant.agent.helper.libraries.libraries import Libraries
from cotenant.agent.protocol.reports import AttachGap, Report, Unprobed, WorkPassedOver
from cotenant.probes.elf import BadElf, NotRead
from cotenant.probes.inodes import Inode
from cotenant.probes.plan import Plan
from tests.unit.agent.helper.libraries.conftest import consider, unread

WAIT_S = 20


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


class TwoReaders:
    """Two tenants that read one file: each goes on when it is told to."""

    def __init__(self, libraries: Libraries, monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
        plan = libraries._plan
        self._libraries, self._file = libraries, file
        self._reads = {tenant: threading.Event() for tenant in ("/calm", "/storm")}
        self._go_on = {tenant: threading.Event() for tenant in ("/calm", "/storm")}
        self._threads: dict[str, threading.Thread] = {}
        self.found: dict[str, bool | None] = {}
        self.later: Counter[str] = Counter()
        self.gaps: list[AttachGap] = []

        def slow(tenant: str, fd: int) -> Plan | None:
            self._reads[tenant].set()
            self._go_on[tenant].wait(WAIT_S)
            return plan(tenant, fd)

        def tell(report: Report) -> None:
            if isinstance(report, AttachGap):
                self.gaps.append(report)

        file.touch()
        monkeypatch.setattr(claims, "_PATIENCE_S", 0.0)
        monkeypatch.setattr(libraries, "_plan", slow)
        monkeypatch.setattr(libraries.gaps, "_tell", tell)
        libraries.gaps.begin()

    def begin(self, tenant: str, mapped_ns: int) -> None:
        def read() -> None:
            fd = os.open(self._file, os.O_RDONLY)
            later = lambda: self.later.update([tenant])  # noqa: E731
            self.found[tenant] = self._libraries.consider(
                fd, str(self._file), tenant, mapped_ns=mapped_ns, later=later
            )

        self._threads[tenant] = threading.Thread(target=read)
        self._threads[tenant].start()
        assert self._reads[tenant].wait(WAIT_S)

    def end(self, tenant: str) -> None:
        self._go_on[tenant].set()
        self._threads[tenant].join(WAIT_S)

    def told(self) -> set[tuple[str, int]]:
        return {(gap.tenant, gap.begin_ns) for gap in self.gaps}


def test_whose_claim_was_taken_over_has_the_file_probed_if_it_is_done_first(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    readers = TwoReaders(libraries, monkeypatch, tmp_path / "shared")
    readers.begin("/calm", 7)
    readers.begin("/storm", 11)
    readers.end("/calm")
    assert readers.found == {"/calm": True}
    assert readers.told() == {("/calm", 7), ("/storm", 11)}
    readers.end("/storm")
    assert readers.found == {"/calm": True, "/storm": None}
    assert readers.later == {"/storm": 1}


def test_whose_claim_was_taken_over_is_told_of_its_gap_and_comes_again(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    readers = TwoReaders(libraries, monkeypatch, tmp_path / "shared")
    readers.begin("/calm", 7)
    readers.begin("/storm", 11)
    readers.end("/storm")
    assert readers.told() == {("/calm", 7), ("/storm", 11)}
    readers.end("/calm")
    assert readers.found == {"/calm": None, "/storm": True}
    assert readers.later == {"/calm": 1}


def test_who_fails_after_a_claim_was_taken_over_costs_the_other_nothing(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    readers = TwoReaders(libraries, monkeypatch, tmp_path / "shared")
    readers.begin("/calm", 7)
    readers.begin("/storm", 11)
    admits: Callable[..., bool] = libraries.quota.admits

    def not_the_storm(tenant: str, *more: Any) -> bool:
        return tenant != "/storm" and admits(tenant, *more)

    monkeypatch.setattr(libraries.quota, "admits", not_the_storm)
    readers.end("/storm")
    readers.end("/calm")
    assert readers.found == {"/calm": True, "/storm": None}
    assert readers.told() == {("/calm", 7)}


@pytest.mark.parametrize(("device", "looks"), [(0, 3), (8 << 20, 1)])
def test_a_file_is_read_once_for_all_or_once_for_each_where_numbers_come_again(
    device: int, looks: int, libraries: Libraries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A device that is no disk may be another tenant's by the next mount."""
    inode = Inode(device, 4711, 0)
    monkeypatch.setattr(module, "real_inode", lambda *_: inode)
    read: list[str] = []
    monkeypatch.setattr(libraries, "_plan", lambda tenant, _: read.append(tenant))
    for _ in range(3):
        for tenant in ("/a", "/b", "/c"):
            assert consider(libraries, tmp_path / "libc.so.6", tenant) is False
            assert libraries.knows(inode, tenant)
    assert read == ["/a", "/b", "/c"][:looks]


def test_who_has_had_its_share_of_unreadable_files_hides_none_from_others(
    libraries: Libraries, passed_over: PassedOver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "real_inode", lambda _, fd: Inode(8 << 20, os.fstat(fd).st_ino, 0))
    told = unread(libraries, monkeypatch, BadElf("has no section headers"))
    blind: list[Report] = []
    monkeypatch.setattr(libraries.unprobed, "_tell", blind.append)
    monkeypatch.setattr(libraries.unprobed, "_mappers", lambda all_: {i: {"/calm"} for i in all_})
    for number in range(16):
        consider(libraries, tmp_path / f"libnccl.so.{number}", "/storm")
    for tenant in ("/storm", "/storm", "/calm"):
        assert consider(libraries, tmp_path / "libcuda.so.535", tenant) is False
    assert len(told) == 17
    assert isinstance(blind[-1], Unprobed)
    assert ("/calm", ("cuda",)) in {one[:2] for one in blind[-1].blind}
    assert passed_over.take_news() == WorkPassedOver({"libraries": {"/storm": 1}})


def test_what_goes_wrong_with_one_tenants_look_is_no_verdict_on_the_file(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "real_inode", lambda *_: Inode(8 << 20, 4711, 0))
    plan = libraries._plan

    def fail(*_: Any) -> Plan | None:
        raise OSError(errno.EIO, "its file system says so")

    monkeypatch.setattr(libraries, "_plan", fail)
    with pytest.raises(OSError, match="says so"):
        consider(libraries, tmp_path / "a", "/storm")
    monkeypatch.setattr(libraries, "_plan", plan)
    assert consider(libraries, tmp_path / "a", "/storm") is False
    assert consider(libraries, tmp_path / "a", "/calm")
