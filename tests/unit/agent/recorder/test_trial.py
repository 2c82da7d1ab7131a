"""A call of our own that does not arrive is no recording."""

import os
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cotenant.agent.recorder import trial as module
from cotenant.agent.recorder.trial import run_trial


def rows(family: str, *pids: int) -> tuple[Any, Any]:
    """Rows of one family, of these processes."""
    return SimpleNamespace(family=family), SimpleNamespace(plain=lambda _: np.array(pids))


class Emptied:
    """A drain out of which these come, one after the other."""

    def __init__(self, *comes: list[Any]) -> None:
        self._comes = list(comes)
        self.back: list[tuple[Any, Any]] = []

    def catch_up(self) -> None:
        pass

    def take(self) -> tuple[list[bytes], list[Any]]:
        return [b"fact"], self._comes.pop(0) if self._comes else []

    def put_back(self, facts: list[bytes], rows: list[Any]) -> None:
        self.back.append((facts, rows))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    made: list[int] = []
    monkeypatch.setattr(module, "probe_here", lambda: made.append(1))
    return made


def test_a_trial_ends_with_a_row_of_each_family_and_keeps_all_others(
    calls: list[int],
) -> None:
    ours, io, host = os.getpid(), rows("io", 7), rows("host", 8)
    drain = Emptied([io, rows("cuda", 7)], [rows("cuda", 7, ours), host], [], [rows("nccl", ours)])
    assert run_trial(drain, ["cuda", "nccl"], 60.0) is None  # type: ignore[arg-type]
    assert len(calls) == 4
    assert drain.back == [([b"fact"] * 4, [io, host])]


def test_a_call_that_does_not_arrive_is_no_recording(calls: list[int]) -> None:
    io = rows("io", os.getpid())
    drain = Emptied([io, rows("cuda", os.getpid())], [rows("nccl", 7)])
    said = run_trial(drain, ["cuda", "nccl"], seconds=0.1)  # type: ignore[arg-type]
    assert said is not None
    assert "no nccl event of a call of our own arrived" in said
    assert calls
    assert drain.back[0][1] == [io]


def test_in_a_namespace_of_its_own_it_is_told_which_one_to_use(
    calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the kernel's numbers of processes are not its own."""
    monkeypatch.setattr(module, "among_all_processes", lambda: False)
    said = run_trial(Emptied([rows("cuda", 7)]), ["cuda"], seconds=0.1)  # type: ignore[arg-type]
    assert said is not None
    assert said.endswith("use the host's (hostPID, --pid=host)")
