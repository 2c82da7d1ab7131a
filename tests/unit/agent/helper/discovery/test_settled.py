"""Only what was read, and is none of ours by name or by number, is dropped from then on."""

import struct
from types import SimpleNamespace
from typing import Any

from cotenant.agent.helper.discovery.mmap_events import MmapEvent
from cotenant.agent.helper.discovery.settled import SettledFiles

OURS = 41


class Dropped:
    """Notes what is to be dropped."""

    def __init__(self) -> None:
        self.marks: list[int] = []

    def settle(self, file: MmapEvent) -> None:
        self.marks.append(file.mark)

    def unsettle(self) -> None:
        self.marks.append(-1)


def event(mark: int, path: str = "/lib/libm.so.6", number: int = 7) -> MmapEvent:
    key = struct.pack("IIQQq", 8, 1, number, 0, hash(path))
    return MmapEvent(9, 4096, 8192, 5, path, writable=False, key=key, mark=mark)


def settled() -> tuple[SettledFiles, list[int]]:
    dropped = Dropped()
    libraries: Any = SimpleNamespace(
        second_looks=lambda shown: [shown] if shown.number == OURS else [],
        unsure=SimpleNamespace(knows=lambda number: number == OURS + 1),
        unprobed=SimpleNamespace(shows=lambda number: number == OURS + 2),
    )
    return SettledFiles(dropped, libraries), dropped.marks


def test_a_file_that_was_read_is_settled_in_each_cgroup_of_its_tenant() -> None:
    files, marks = settled()
    files.mapped("a", event(2))
    assert marks == []
    files.found("a", event(2))
    files.mapped("a", event(4))
    files.mapped("b", event(6))
    assert marks == [2, 4]


def test_what_a_process_had_mapped_that_is_gone_is_settled_for_those_that_are_gone() -> None:
    files, marks = settled()
    files.mapped("?", event(3))
    files.mapped("?", event(4))
    assert marks == [3]


def test_names_and_numbers_of_ours_are_never_settled() -> None:
    files, marks = settled()
    for path in ("/x/libcudart.so.12", "/x/libnccl.so.2", "/memfd:libcuda.so"):
        for mark in (2, 3):
            files.found("a", event(mark, path))
            files.mapped("a", event(mark, path))
    for number in range(OURS, OURS + 3):
        files.found("a", event(2, number=number))
    assert marks == []


def test_what_is_let_go_makes_every_file_new_again() -> None:
    files, marks = settled()
    files.found("a", event(2))
    files.clear()
    files.mapped("a", event(2))
    assert marks == [2, -1]
