"""What a tenant's file takes is bounded, and whoever looks into it can do nothing else."""

import contextlib
import errno
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cotenant.agent.helper.files import readers as module
from cotenant.agent.helper.files.elf_files import ElfFiles
from cotenant.agent.helper.files.elf_files import answer as answer_elf
from cotenant.agent.helper.files.readers import Answer, Readers
from cotenant.probes.elf import BadElf, Elf
from cotenant.probes.plan import plan
from cotenant.probes.sites import Stepping
from cotenant.probes.tables import FUNCTIONS
from tests.kernel.conftest import SIM

Make = Callable[..., Readers]
LIGHT = 1 << 20


def misbehave(fd: int, question: bytes) -> bytes:
    """Does what its question says: what somebody might make it do."""
    if question == b"read":
        return os.pread(fd, 100, 0)
    if question == b"memory":
        return bytes(1 << 30)[:1]
    if question == b"half":
        return bytes(1 << 29)[:1]
    if question == b"time":
        while True:
            pass
    if question == b"sleep":
        end = time.monotonic() + 60
        while time.monotonic() < end:
            os.pread(fd, 1, 0)
    if question == b"open":
        return os.pread(os.open("/etc/hostname", os.O_RDONLY), 100, 0)
    if question == b"fork":
        return str(os.fork()).encode()
    if question == b"bad":
        raise BadElf("is bad")
    return b"\0" * (1 << 25)


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes them when limits are set."""
    made: list[Readers] = []

    def one(answer: Answer = misbehave) -> Readers:
        made.append(Readers(answer))
        return made[-1]

    yield one
    for each in made:
        each.close()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "f").write_text("text")
    fd = os.open(tmp_path / "f", os.O_RDONLY)
    yield fd
    os.close(fd)


def test_a_reader_reads_what_is_open_and_nothing_else(
    file: int, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CPU_S", 1)
    readers = make()
    assert readers.ask("calm", file, b"read", LIGHT) == b"text"
    for question in (b"memory", b"time", b"open", b"fork", b"too long"):
        with pytest.raises(BadElf, match="takes too much to read"):
            readers.ask(question.decode(), file, question, LIGHT)
    with pytest.raises(BadElf, match="is bad"):
        readers.ask("calm", file, b"bad", LIGHT)
    assert readers.ask("calm", file, b"read", LIGHT) == b"text"


def test_a_reader_ends_in_time_by_itself(
    file: int, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.3)
    readers = make()
    with pytest.raises(BadElf, match="takes too much to read"):
        readers.ask("slow", file, b"sleep", LIGHT)


def test_who_never_answers_is_asked_nothing_more_until_he_does(
    file: int, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = make()
    monkeypatch.setattr(module, "_SECONDS", -0.9)  # Here; the other process has its minute.
    with pytest.raises(BadElf, match="does not answer"):
        readers.ask("hangs", file, b"sleep", LIGHT)
    with pytest.raises(BadElf, match="lies where another file does not answer"):
        readers.ask("hangs", file, b"read", LIGHT)
    monkeypatch.setattr(module, "_SECONDS", 60.0)
    assert readers.ask("calm", file, b"read", LIGHT) == b"text"


def test_a_tenant_whose_files_take_long_waits_for_its_share(
    file: int, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    readers = make()
    monkeypatch.setattr(module.time, "sleep", slept.append)
    for _ in range(3):
        assert readers.ask("storm", file, b"read", LIGHT) == b"text"
    assert slept == []
    readers._account("storm").left_s = -2.0
    assert readers.ask("storm", file, b"read", LIGHT) == b"text"
    assert 9 < slept[0] <= 10
    assert readers.ask("calm", file, b"read", LIGHT) == b"text"
    assert len(slept) == 1


def test_all_that_read_at_once_have_bounded_memory_and_small_ones_pass(
    file: int, make: Make
) -> None:
    readers = make()
    endless = 1 << 60
    answers: list[bytes] = []

    def ask(tenant: str) -> None:
        answers.append(readers.ask(tenant, file, b"read", endless))

    with readers._memory.taken(module._MEMORY_MAX):
        waiting = [threading.Thread(target=ask, args=(f"storm {n}",)) for n in range(3)]
        for thread in waiting:
            thread.start()
        # Three of another 64 MiB each, and what a real framework takes.
        for weight in (LIGHT, LIGHT, LIGHT, 300 << 20):
            assert readers.ask("calm", file, b"read", weight) == b"text"
        assert answers == []
    for thread in waiting:
        thread.join(60)
    assert answers == [b"text"] * 3


def test_memory_is_by_what_there_is_to_look_through(file: int, make: Make) -> None:
    readers = make()
    # A gigabyte is more than anybody may have, half of one more than a light file may.
    with pytest.raises(BadElf, match="takes too much to read"):
        readers.ask("storm", file, b"memory", 1 << 60)
    with pytest.raises(BadElf, match="takes too much to read"):
        readers.ask("light", file, b"half", LIGHT)
    assert readers.ask("heavy", file, b"half", 600 << 20) == b"\0"


def test_where_memory_runs_out_the_one_that_reads_goes_and_not_the_one_that_starts_it(
    file: int, make: Make
) -> None:
    readers = make()
    mine = Path("/proc/self/oom_score_adj").read_text()

    def ask() -> None:
        with contextlib.suppress(BadElf):
            readers.ask("t", file, b"sleep", LIGHT)

    sleeper = threading.Thread(target=ask)
    sleeper.start()
    children = Path(f"/proc/{readers._pid}/task/{readers._pid}/children")
    while not (started := children.read_text().split()):
        time.sleep(0.001)
    score = Path(f"/proc/{started[0]}/oom_score_adj")
    while score.read_text() != "1000\n":
        time.sleep(0.001)
    assert Path(f"/proc/{readers._pid}/oom_score_adj").read_text() == mine
    os.kill(int(started[0]), signal.SIGKILL)
    sleeper.join(60)
    assert readers.ask("other", file, b"read", LIGHT) == b"text"


def test_a_file_that_nobody_is_left_to_read_is_no_library_that_could_be_read(
    file: int, make: Make
) -> None:
    readers = make()
    os.kill(readers._pid, signal.SIGKILL)
    os.waitpid(readers._pid, 0)
    for _ in range(3):
        with pytest.raises(BadElf, match="nobody is left to read it"):
            readers.ask("t", file, b"read", LIGHT)


def test_a_process_that_cannot_be_started_costs_one_answer(
    file: int, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    forks = iter([os.fork, None, os.fork])  # The first is the process that starts the others.

    def fork() -> int:
        if (real := next(forks)) is None:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        return real()

    monkeypatch.setattr(module.os, "fork", fork)
    readers = make()
    with pytest.raises(BadElf, match="cannot be read now: Resource temporarily unavailable"):
        readers.ask("t", file, b"read", LIGHT)
    assert readers.ask("t", file, b"read", LIGHT) == b"text"


@pytest.mark.parametrize("name", ["libcuda.so.1", "libcudart.so.12", "libnccl.so.2"])
def test_another_process_says_the_same(
    name: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ElfFiles(make(answer_elf))
    fd = os.open(SIM / name, os.O_RDONLY)
    here = plan(fd, FUNCTIONS, Stepping.ROWS)
    monkeypatch.setattr("cotenant.agent.helper.files.elf_files._LIGHT", 0)
    assert here is not None
    assert files.plan("t", fd, FUNCTIONS, Stepping.ROWS) == here
    with Elf(fd) as elf:
        assert files.function_starts("t", fd).tolist() == elf.function_starts().tolist()
        first = here.placed[0]
        inside = elf.address_of(first.start or 0)
        assert inside is not None
        found = files.name_at("t", fd, first.start or 0)
        assert (found.name, found.inside) == (elf.name_at(inside), inside)
        assert files.variables("t", fd, "8__handle").tolist() == elf.variables("8__handle").tolist()
    os.close(fd)
