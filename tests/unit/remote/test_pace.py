"""The bound on bytes per second."""

from cotenant.remote.pace import Pace


def test_bytes_take_their_time():
    now = [0.0]
    pace = Pace(1000, clock=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
    for _ in range(11):
        pace.wait(500)
    assert now[0] == 5.0


def test_time_without_bytes_is_not_saved_up():
    now = [100.0]
    pace = Pace(1000, clock=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
    pace.wait(1000)
    now[0] += 100
    pace.wait(1000)
    pace.wait(1000)
    assert now[0] == 201.0
