"""Where no program wakes for mappings, events do, but not in a storm."""

import os
import time

import pytest

from cotenant.agent.helper.discovery import mmap_events as module


@pytest.fixture
def switched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the kernel was asked of each event; in place of one there is a file."""
    asked: list[int] = []

    def opened(cpu: int, wake_bytes: int) -> int:
        fd = os.memfd_create(f"bell-{cpu}-{wake_bytes}")
        os.truncate(fd, 2 * os.sysconf("SC_PAGE_SIZE"))
        return fd

    monkeypatch.setattr(module, "_open", opened)
    monkeypatch.setattr(module, "online_cpus", lambda: [0])
    monkeypatch.setattr(module.fcntl, "ioctl", lambda fd, what, _: asked.append(what))
    return asked


def after(bells: module._Bells, seconds: float, taken: int) -> bool:
    """As if so much time had passed."""
    bells._at = time.monotonic() - seconds
    return bells.follow(taken)


def test_events_are_off_in_a_storm_and_on_after_it(switched: list[int]) -> None:
    bells, storm = module._Bells(), 2 * module._STORM_BYTES_S
    assert not after(bells, 1.0, 100)
    assert (switched, bells.silent) == ([], False)
    assert not after(bells, 1.0, 100 + storm)
    assert (switched, bells.silent) == ([module._DISABLE], True)
    assert not after(bells, 1.0, 100 + 2 * storm)
    assert switched == [module._DISABLE]
    # What came meanwhile woke nobody: it is to be read now.
    assert after(bells, 1.0, 101 + 2 * storm)
    assert (switched, bells.silent) == ([module._DISABLE, module._ENABLE], False)
    bells.close()


def test_a_moment_decides_nothing(switched: list[int]) -> None:
    bells = module._Bells()
    assert not after(bells, 0.0, 10**9)
    assert switched == []
    bells.close()
