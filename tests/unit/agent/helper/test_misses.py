"""Runs that the kernel left out, but for those that a second program made up for."""

from collections import Counter

import numpy as np
import pytest

from cotenant.agent.helper import misses as module
from cotenant.agent.helper.misses import Misses
from cotenant.agent.protocol.reports import Report, RunsMissed
from cotenant.schema.layouts import RUN

PROGRAMS = {"io_issue": 3, "tcp_state": 5, "tcp_state_inside": 7}
TCP_STATE = bytes(4)


class Kernel:
    """What its counts are."""

    def __init__(self) -> None:
        self.missed: Counter[int] = Counter()
        self.inside = np.zeros(2, RUN)

    def program_misses(self, fd: int) -> int:
        return self.missed[fd]

    def map_lookup(self, fd: int, name: str, key: bytes) -> bytes:
        assert (fd, name, key) == (11, "runs", TCP_STATE)
        return self.inside.tobytes()


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel()
    monkeypatch.setattr(module, "syscalls", made)
    return made


def test_what_a_second_program_did_meanwhile_is_not_missing(kernel: Kernel) -> None:
    told: list[Report] = []
    misses = Misses(PROGRAMS, {"runs": 11}, told.append)
    misses.tend(last=True)
    assert told == []
    # The kernel left out 23 runs on two CPUs; all but two were made up for.
    kernel.missed[5], kernel.missed[7] = 23, 2
    kernel.inside["inside"] = 8, 13
    misses.tend(last=True)
    assert told == [RunsMissed({"tcp_state": 2})]
    kernel.missed[3] = 1
    misses.tend(last=True)
    assert told[1:] == [RunsMissed({"io_issue": 1, "tcp_state": 2})]


def test_what_was_told_once_is_not_taken_back(kernel: Kernel) -> None:
    """A run may be counted as left out before the second program has begun."""
    told: list[Report] = []
    misses = Misses(PROGRAMS, {"runs": 11}, told.append)
    kernel.missed[5] = 1
    misses.tend(last=True)
    kernel.inside["inside"] = 1, 0
    misses.tend(last=True)
    assert told == [RunsMissed({"tcp_state": 1})]


def test_where_no_sockets_are_followed_there_is_nothing_to_make_up_for(kernel: Kernel) -> None:
    told: list[Report] = []
    kernel.missed[3] = 5
    Misses({"io_issue": 3}, {}, told.append).tend(last=True)
    assert told == [RunsMissed({"io_issue": 5})]
