"""How many files of one tenant are probed at once."""

import errno
import os
import queue
import time
from pathlib import Path
from typing import Any

import pytest

from cotenant.agent.helper.fair_queue import ENDED, OURS, PassedOver
from cotenant.agent.helper.libraries import claims
from cotenant.agent.helper.libraries import libraries as module
from cotenant.agent.helper.libraries.libraries import Libraries
from cotenant.agent.helper.libraries.prober import Prober
from cotenant.agent.protocol.reports import LibraryReport, Report, Unprobed, WorkPassedOver
from cotenant.errors import ProbeError
from cotenant.probes.changes import TooMany
from cotenant.probes.elf import BadElf, NotRead
from cotenant.probes.inodes import Inode
from cotenant.probes.memory_locks import HeldUp
from cotenant.probes.plan import Plan
from tests.unit.agent.helper.libraries.conftest import consider, unread
from tests.unit.probes.memory import no_code


def test_a_tenant_has_so_many_files_probed_and_all_others_theirs(
    libraries: Libraries, passed_over: PassedOver, tmp_path: Path
) -> None:
    found = [consider(libraries, tmp_path / f"s{n}", "storm") for n in range(259)]
    assert found == [True] * 256 + [None] * 3
    # What is looked at again, since mappings were lost, is passed over once.
    assert not consider(libraries, tmp_path / "s258", "storm")
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
    monkeypatch.setattr(libraries.quota, "descriptors_max", 16)
    storm = [consider(libraries, tmp_path / f"s{n}", "storm") for n in range(7)]
    assert storm == [True] * 5 + [None] * 2
    assert consider(libraries, tmp_path / "c0", "calm")


class Refusing(Prober):
    """A prober that fails so many times."""

    def __init__(self, failures: int, error: ProbeError) -> None:
        super().__init__(None, no_code())  # type: ignore[arg-type]
        self.left = failures
        self._error = error

    def _place(self, *_: Any) -> None:
        if self.left:
            self.left -= 1
            raise self._error


INTERRUPTED = ProbeError("cannot probe: Interrupted system call")


@pytest.mark.parametrize(
    ("failures", "error", "attached"),
    [
        (1, INTERRUPTED, 1),
        (3, INTERRUPTED, 1),
        (4, INTERRUPTED, 0),
        (1, TooMany("of them"), 0),
        (1, HeldUp("by one of them"), 0),
    ],
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


def inode_of(file: Path) -> Inode:
    return Inode(0, file.stat().st_ino, 0)


def test_a_file_that_is_written_to_loses_its_probes_and_is_looked_at_anew(
    libraries: Libraries, tmp_path: Path
) -> None:
    changed, kept = tmp_path / "a", tmp_path / "b"
    withdrawn: queue.SimpleQueue[Inode] = queue.SimpleQueue()
    assert consider(libraries, changed, "tenant")
    assert consider(libraries, kept, "tenant")
    changed.write_bytes(b"new")
    library = libraries.probed(inode_of(changed))
    assert library is not None
    for _ in range(3):
        libraries.withdraw_rewritten(withdrawn.put)
    assert withdrawn.get(timeout=20) == inode_of(changed)
    assert library.probes.void
    assert withdrawn.empty()
    libraries.let_go({inode_of(changed)})
    assert len(libraries) == 1
    assert consider(libraries, changed, "tenant")
    assert len(libraries) == 2


def test_a_file_that_is_written_to_while_it_is_looked_at_is_not_probed_yet(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[Report] = []
    plan = libraries._plan

    def slowly(tenant: str, fd: int) -> Plan | None:
        (tmp_path / "a").write_bytes(b"new")
        return plan(tenant, fd)

    monkeypatch.setattr(libraries, "_tell", told.append)
    monkeypatch.setattr(libraries, "_plan", slowly)
    consider(libraries, tmp_path / "a", "tenant")
    (report,) = [report for report in told if isinstance(report, LibraryReport)]
    assert (report.attached, report.refused) == (0, {"*": "somebody has written to the file"})
    assert len(libraries) == 0
    monkeypatch.setattr(libraries, "_plan", plan)
    consider(libraries, tmp_path / "a", "tenant")
    assert len(libraries) == 1


def test_a_file_that_is_written_to_unheard_loses_its_probes(
    libraries: Libraries, tmp_path: Path
) -> None:
    assert consider(libraries, tmp_path / "a", "tenant")
    assert consider(libraries, tmp_path / "b", "tenant")
    libraries.rewrites.close()
    withdrawn: list[Inode] = []
    for written in (False, True):
        if written:
            (tmp_path / "a").write_bytes(b"new")
        for tenant, check in libraries.rewrite_checks(withdrawn.append):
            assert tenant == "tenant"
            check()
    assert withdrawn == [inode_of(tmp_path / "a")]


def test_a_copy_that_is_finished_while_its_half_is_looked_at_is_looked_at_again(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = libraries._plan

    def half(_: str, __: int) -> Plan | None:
        (tmp_path / "a").write_bytes(b"whole")
        return None

    monkeypatch.setattr(libraries, "_plan", half)
    assert not consider(libraries, tmp_path / "a", "tenant")
    monkeypatch.setattr(libraries, "_plan", plan)
    assert consider(libraries, tmp_path / "a", "tenant")


def test_what_too_many_have_mapped_is_looked_at_again_in_a_while(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    prober = Refusing(1, TooMany("of them"))
    monkeypatch.setattr(libraries, "_prober", prober)
    assert not consider(libraries, tmp_path / "a", "tenant")
    assert not consider(libraries, tmp_path / "a", "tenant")
    assert prober.left == 0
    later = time.monotonic() + 60
    monkeypatch.setattr(claims.time, "monotonic", lambda: later)
    assert consider(libraries, tmp_path / "a", "tenant")


def test_a_file_system_that_fails_costs_no_descriptor(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(_: int) -> tuple[int, ...]:
        raise OSError(errno.ESTALE, "stale")

    before = set(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(module, "file_state", fail)
    with pytest.raises(OSError, match="stale"):
        consider(libraries, tmp_path / "a", "tenant")
    monkeypatch.undo()
    monkeypatch.setattr(claims, "file_state", fail)
    monkeypatch.setattr(module, "real_inode", lambda _, fd: Inode(0, os.fstat(fd).st_ino, 0))
    assert not consider(libraries, tmp_path / "a", "tenant")
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_file_that_is_removed_while_it_is_looked_at_is_probed(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = libraries._plan

    def slowly(tenant: str, fd: int) -> Plan | None:
        (tmp_path / "a").unlink()
        return plan(tenant, fd)

    monkeypatch.setattr(libraries, "_plan", slowly)
    assert consider(libraries, tmp_path / "a", "tenant")
    assert len(libraries) == 1


def test_code_is_looked_at_when_a_process_maps_it_again_or_makes_it_writable(
    libraries: Libraries, tmp_path: Path
) -> None:
    assert consider(libraries, tmp_path / "a", "tenant")
    inode = inode_of(tmp_path / "a")

    def when(pid: int, *, writable: bool) -> list[bool]:
        return [wait_s > 0 for wait_s in libraries.changed(pid, inode, writable=writable)]

    assert when(7, writable=False) == []
    assert when(7, writable=False) == [False, True]
    # What is writable may be changed later.
    assert when(8, writable=True) == [True]
    assert when(8, writable=False) == [False, True]
    assert libraries.changed(7, Inode(0, inode.number + 1, 0), writable=True) == ()


@pytest.mark.parametrize(
    ("name", "kinds", "families"),
    [
        ("libcuda.so.1", ("cuda",), {"cuda"}),
        ("libcudart.so.12", ("cudart",), set()),
        ("libnccl.so.2.21", ("nccl",), {"nccl"}),
        ("libtorch_cuda.so", ("cudart", "nccl"), {"nccl"}),
        ("libc.so.6", None, set()),
    ],
)
def test_a_library_that_cannot_be_read_is_told_by_its_name(
    name: str, kinds: tuple[str, ...] | None, families: set[str], libraries: Libraries,
    passed_over: PassedOver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    told = unread(libraries, monkeypatch, BadElf("has no section of symbols"))
    blind: list[Report] = []
    monkeypatch.setattr(libraries.unprobed, "_tell", blind.append)
    monkeypatch.setattr(
        libraries.unprobed, "_mappers", lambda files: {one: {"/t"} for one in files}
    )
    for _ in range(2):
        assert not consider(libraries, tmp_path / name, "/t")
    expected = LibraryReport(
        str(tmp_path / name), 0, {"*": "has no section of symbols"}, kinds or (),
        blind=name == "libcuda.so.1",
    )  # fmt: skip
    assert told == ([] if kinds is None else [expected])
    seen = [one for report in blind if isinstance(report, Unprobed) for one in report.blind]
    assert {(one.tenant, family) for one in seen for family in one.families} == {
        ("/t", family) for family in families
    }
    assert passed_over.take_news() is None
    # It is known as long as it stays as it is.
    assert libraries.knows(inode_of(tmp_path / name), "/t")


@pytest.mark.parametrize("name", ["libcuda.so.1", "libc.so.6"])
def test_a_file_that_nobody_could_read_is_counted_once_and_looked_at_again(
    name: str, libraries: Libraries, passed_over: PassedOver, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    plan = libraries._plan
    told = unread(libraries, monkeypatch, NotRead("does not answer"))
    monkeypatch.setattr(libraries.unprobed, "_mappers", lambda _: {})
    assert consider(libraries, tmp_path / name, "/t") is None
    away = libraries._claims.turned_away
    assert away(inode_of(tmp_path / name), "/t")
    later = time.monotonic() + 61
    monkeypatch.setattr(claims.time, "monotonic", lambda: later)
    assert not away(inode_of(tmp_path / name), "/t")
    assert not consider(libraries, tmp_path / name, "/t")
    assert len(told) == (name == "libcuda.so.1")
    assert passed_over.take_news() == WorkPassedOver({"libraries": {"/t": 1}})
    later += 61
    monkeypatch.setattr(libraries, "_plan", plan)
    assert consider(libraries, tmp_path / name, "/t")


def test_files_without_end_that_cannot_be_read_are_told_of_a_few_and_of_nobody_else(
    libraries: Libraries, passed_over: PassedOver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told = unread(libraries, monkeypatch, BadElf("has an absurd number of headers"))
    looks: list[int] = []

    def look(files: dict[Inode, Any]) -> dict[Inode, set[str]]:
        looks.append(len(files))
        return {}

    monkeypatch.setattr(libraries.unprobed, "_mappers", look)
    for n in range(101):
        consider(libraries, tmp_path / f"libcuda.so.{n}", "/storm")
        consider(libraries, tmp_path / f"libnccl.so.{n}", OURS)
        consider(libraries, tmp_path / f"lib{n}.so", "/storm")
    assert (len(told), len(looks)) == (32, 32)
    assert passed_over.take_news() == WorkPassedOver({"libraries": {"/storm": 85}})
    # What the host's search has found is told when somebody maps it.
    assert not consider(libraries, tmp_path / "libnccl.so.100", "/calm")
    assert len(told) == 33


@pytest.mark.parametrize("tenant", [OURS, ENDED])
def test_a_file_of_nobody_makes_no_tenant_incomplete(
    tenant: str, libraries: Libraries, passed_over: PassedOver, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    unread(libraries, monkeypatch, NotRead("takes too much to read"))
    assert not consider(libraries, tmp_path / "x", tenant)
    assert passed_over.take_news() is None


@pytest.mark.parametrize(
    ("shown_device", "tenant", "seen"),
    [(0, "/t", True), (8 << 20, "/t", False), (40, "/t", True), (40, "/other", False)],
)
def test_a_file_that_was_missed_is_no_probed_one_that_has_its_number_alone(
    shown_device: int, tenant: str, seen: bool, libraries: Libraries,
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    file = tmp_path / "libcuda.so.1"
    assert consider(libraries, file, "/t")
    libraries.gaps.begin()
    told: list[LibraryReport] = []
    monkeypatch.setattr(libraries, "_tell", told.append)
    shown = Inode(shown_device, inode_of(file).number, 0)
    libraries.missed(shown, "/x/libcuda.so.1", tenant, time.monotonic_ns())
    assert bool(told) != seen
    assert bool(libraries.gaps._unprobed) != seen
