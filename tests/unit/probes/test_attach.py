"""Probes of a file: their order, what programs are told, and what a failure leaves."""

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cotenant.errors import ProbeError
from cotenant.probes import attach, syscalls
from cotenant.probes.attach import PROGRAMS, Attacher, Attachment, Method, Placed
from cotenant.probes.function import CallFamily, Flag, Function, Library
from cotenant.probes.tables import FUNCTIONS
from tests.unit.probes.c_values import evaluate, header
from tests.unit.probes.test_threads import no_start

NAMES = {f"{family}_{end}": 100 for family in CallFamily for end in ("session", "enter", "return")}


def placed(number: int, **more: Any) -> Placed:
    return Placed(Function(number, Library.CUDA, f"cu{number}", **more), number * 16)


class Kernel:
    """Takes links as the kernel would, up to one that it refuses; each is a real descriptor."""

    def __init__(self, refuses: int = -1) -> None:
        self.asked: list[tuple[list[int], bool]] = []
        self.links: list[int] = []
        self._refuses = refuses

    def attach_uprobes(self, _: int, path: str, sites: Any, **how: Any) -> int:
        if len(self.asked) == self._refuses:
            raise OSError(22, "Invalid argument")
        self.asked.append(([cookie & 0xFFFF for _, cookie in sites], how["returns"]))
        self.links.append(os.open("/dev/null", os.O_RDONLY))
        return self.links[-1]


def is_open(fd: int) -> bool:
    return Path(f"/proc/self/fd/{fd}").exists()


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    made = Kernel()
    monkeypatch.setattr(syscalls, "attach_uprobes", made.attach_uprobes)
    yield made
    for fd in made.links:
        if is_open(fd):
            os.close(fd)


def test_programs_read_the_cookie_as_it_is_written(tmp_path: Path) -> None:
    text = header("thread.bpf.h").read_text()
    first, last = text.index("static __always_inline __u32 attachment_of"), text.index("has_ended(")
    functions = text[first : text.rindex("/*", first, last)]
    highest = max(function.id for function in FUNCTIONS)
    cases = [(1, 1), (7, highest), (70_000, 0xFFFF)]
    wanted = [
        f"{reader}({attach._cookie(Attachment(number=number), placed(function))}ull)"
        for number, function in cases
        for reader in ("attachment_of", "function_of")
    ]
    preamble = f'#include "common/call.h"\n{functions}'
    found = list(evaluate(tmp_path, preamble, wanted).values())
    assert list(zip(found[::2], found[1::2], strict=True)) == cases


def test_a_session_is_one_link_a_family_with_what_records_events_last(kernel: Kernel) -> None:
    functions = [
        placed(1, step="EVENT_RECORD"), placed(2), placed(3, family=CallFamily.NCCL), placed(4),
    ]  # fmt: skip
    done = Attacher(Method.SESSION, NAMES).attach(0, functions)
    assert kernel.asked == [([2, 4, 1], False), ([3], False)]
    assert done.links == kernel.links


def test_what_is_known_at_entry_has_no_return_probe(kernel: Kernel) -> None:
    functions = [placed(1, flags=Flag.AT_ENTRY), placed(2)]
    Attacher(Method.MULTI, NAMES).attach(0, functions)
    Attacher(Method.MULTI, NAMES).attach(0, functions[:1])
    assert kernel.asked == [([2], True), ([1, 2], False), ([1], False)]


def test_each_attachment_has_a_number_of_its_own(kernel: Kernel) -> None:
    attacher = Attacher(Method.SESSION, NAMES)
    assert [attacher.attach(0, [placed(1)]).number for _ in range(3)] == [1, 2, 3]


def test_a_link_that_is_refused_takes_the_others_of_its_file_with_it(kernel: Kernel) -> None:
    kernel._refuses = 2
    functions = [placed(1), placed(2, family=CallFamily.NCCL)]
    with pytest.raises(ProbeError, match=r"cannot attach to /proc/.*/fd/0: Invalid argument"):
        Attacher(Method.MULTI, NAMES).attach(0, functions)
    assert len(kernel.links) == 2
    assert not any(is_open(fd) for fd in kernel.links)


class Kept:
    """A keeper that notes what it holds."""

    def __init__(self) -> None:
        self.held: dict[int, list[int]] = {}
        self.released: list[tuple[int, bool]] = []
        self.links: list[int] = []

    def hold(self, number: int, file: int, fds: Sequence[int]) -> None:
        assert is_open(file)
        self.held.setdefault(number, []).extend(fds)

    def release(self, number: int) -> None:
        # They are still open here: else this process's close would not be the last.
        self.released.append((number, all(is_open(fd) for fd in self.held[number])))


def test_the_keeper_has_every_link_until_it_is_closed(kernel: Kernel) -> None:
    kept = Kept()
    attacher = Attacher(Method.MULTI, NAMES, keeper=kept)
    done = attacher.attach(0, [placed(1), placed(2, family=CallFamily.NCCL)])
    assert kept.held == {done.number: done.links}
    file = done.file
    attacher.remove(done)
    assert kept.released == [(done.number, True)]
    assert not any(is_open(fd) for fd in [*kernel.links, file])
    attacher.remove(done)
    assert len(kept.released) == 1


def test_probes_go_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    held = [os.dup(0) for _ in range(37)]
    monkeypatch.setattr(threading.Thread, "start", no_start)
    Attachment(1, -1, held[:31], held[31:]).close()
    assert not any(is_open(fd) for fd in held)


def test_methods_are_tried_best_first_and_each_has_its_programs() -> None:
    assert list(Method) == [Method.SESSION, Method.MULTI, Method.PAIR]
    assert {method: sorted(PROGRAMS[method]) for method in Method} == {
        Method.SESSION: ["session"],
        Method.MULTI: ["enter", "return"],
        Method.PAIR: ["enter", "return"],
    }
