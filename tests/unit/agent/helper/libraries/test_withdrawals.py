"""Whoever writes to his own files costs nobody else a probe, and us few threads."""

import queue
import threading
from pathlib import Path

import pytest

from cotenant.agent.helper.libraries.libraries import Libraries
from cotenant.agent.helper.libraries.prober import Probes
from cotenant.probes.inodes import Inode
from tests.unit.agent.helper.libraries.conftest import Attached, consider
from tests.unit.probes.test_threads import no_start

WAIT_S = 20
STORM = 251


def inode_of(file: Path) -> Inode:
    return Inode(0, file.stat().st_ino, 0)


def probed(libraries: Libraries, directory: Path, tenant: str, number: int) -> list[Path]:
    """Files of this tenant, all of them probed."""
    files = [directory / f"{tenant}{n}" for n in range(number)]
    assert all(consider(libraries, file, tenant) for file in files)
    return files


def write(files: list[Path]) -> None:
    for file in files:
        file.write_bytes(b"x")


class Slow(Attached):
    """A kernel that takes its time to remove probes, except those of one file."""

    def __init__(self, at_once: Probes) -> None:
        self._at_once = at_once
        self.go_on = threading.Event()

    def withdraw(self, probes: Probes) -> None:
        if probes is not self._at_once:
            assert self.go_on.wait(WAIT_S)
        super().withdraw(probes)


def test_whoever_writes_to_many_files_takes_few_threads_and_holds_up_nobody(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    storm = probed(libraries, tmp_path, "storm", STORM)
    calm = probed(libraries, tmp_path, "calm", 1)
    library = libraries.probed(inode_of(calm[0]))
    assert library is not None
    kernel = Slow(library.probes)
    monkeypatch.setattr(libraries, "_prober", kernel)
    before = threading.active_count()
    done: queue.SimpleQueue[Inode] = queue.SimpleQueue()
    for file in storm:
        write([file])
        libraries.withdraw_rewritten(done.put)
    write(calm)
    libraries.withdraw_rewritten(done.put)
    assert done.get(timeout=WAIT_S) == inode_of(calm[0])
    # Those that help, and one for each of the two and the next.
    assert threading.active_count() <= before + 31 + 3
    kernel.go_on.set()
    withdrawn = {done.get(timeout=WAIT_S) for _ in storm}
    assert withdrawn == {inode_of(file) for file in storm}
    assert all(found.probes.void for file in storm if (found := libraries.probed(inode_of(file))))
    assert done.empty()


def test_probes_are_withdrawn_where_no_thread_can_be_started(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = probed(libraries, tmp_path, "storm", STORM)
    monkeypatch.setattr(threading.Thread, "start", no_start)
    done: queue.SimpleQueue[Inode] = queue.SimpleQueue()
    write(files)
    libraries.withdraw_rewritten(done.put)
    withdrawn = {done.get(timeout=WAIT_S) for _ in files}
    assert withdrawn == {inode_of(file) for file in files}
    libraries.let_go(withdrawn)
    assert len(libraries) == 0


class Failing(Attached):
    """A kernel that fails for the first file."""

    def __init__(self) -> None:
        self.left = 1

    def withdraw(self, probes: Probes) -> None:
        self.left -= 1
        if not self.left:
            raise OSError("refused")
        super().withdraw(probes)


def test_a_failure_for_one_file_leaves_no_other_with_its_probes(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(threading.Thread, "start", no_start)
    monkeypatch.setattr(libraries, "_prober", Failing())
    done: queue.SimpleQueue[Inode] = queue.SimpleQueue()
    for files in (probed(libraries, tmp_path, name, 23) for name in ("first", "second")):
        write(files)
        libraries.withdraw_rewritten(done.put)
    assert len({done.get(timeout=WAIT_S) for _ in range(2 * 23 - 1)}) == 2 * 23 - 1
