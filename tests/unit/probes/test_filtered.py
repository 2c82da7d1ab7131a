"""A child whose system calls are filtered calls a probed function, and lives or does not."""

import faulthandler
import os
import signal
import sys

import pytest

from cotenant.confine.seccomp import refuse_late_calls
from cotenant.probes import filtered

_GETPID, _PIDFD_SEND_SIGNAL = 39, 424


def test_a_call_that_comes_back_is_no_reason_against_it() -> None:
    assert filtered.why_deadly() is None


def test_a_call_that_kills_is_told_with_its_signal_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    faulthandler.enable(sys.__stderr__)
    monkeypatch.setattr(filtered, "probe_here", lambda: os.kill(os.getpid(), signal.SIGSEGV))
    reason = filtered.why_deadly()
    assert reason is not None
    assert reason.endswith("(SIGSEGV)")
    assert capfd.readouterr().err == ""


def test_calls_that_were_free_for_long_are_refused_and_no_others() -> None:
    pid = os.fork()
    if not pid:
        import ctypes

        syscall = ctypes.CDLL(None, use_errno=True).syscall

        def refused(number: int) -> bool:
            ctypes.set_errno(0)
            return syscall(number, -1, 0, 0, 0) == -1 and ctypes.get_errno() == 1

        refuse_late_calls()
        found = [refused(each) for each in (_GETPID, 400, 423, _PIDFD_SEND_SIGNAL)]
        os._exit(0 if found == [False, True, True, False] else 1)
    assert os.waitpid(pid, 0)[1] == 0
