"""Times are read in the zone in which they are printed; a window without any recording is said."""

import time

import pytest

from cotenant.errors import UsageError
from cotenant.query.text.time_syntax import moment_ns
from cotenant.views.moments import moment, show_utc, with_zone
from tests.views.conftest import NOW_NS
from tests.virtual.store import VirtualStore

SECOND = 1_000_000_000
SUMMER, WINTER = NOW_NS, NOW_NS + 120 * 86_400_000_000_000


@pytest.fixture
def berlin(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    show_utc(False)
    yield
    show_utc(False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.mark.parametrize("utc", [False, True])
@pytest.mark.parametrize("at_ns", [SUMMER, WINTER])
def test_a_time_that_was_printed_is_read_as_the_same_moment(berlin, utc, at_ns):
    show_utc(utc)
    for printed in (moment(at_ns), with_zone(at_ns), moment(at_ns).replace(" ", "T")):
        assert moment_ns(printed) == at_ns, printed


def test_a_time_may_name_any_zone_that_is_known(berlin):
    assert moment_ns("2026-09-21 14:13:20 UTC") == moment_ns("2026-09-21T14:13:20+00:00") == NOW_NS
    assert moment_ns("2026-09-21T16:13:20") == moment_ns("2026-09-21T14:13:20Z") == NOW_NS
    with pytest.raises(UsageError, match="unknown zone PST"):
        moment_ns("2026-09-21 14:13:20 PST")


@pytest.mark.parametrize("words", [("ask", "slow_calls"), ("explain",), ("sql", "SELECT 1")])
def test_a_window_without_any_recording_fails_with_the_range_there_is(cotenant, words):
    for window in (("--to", "2026-09-20"), ("--from", "2026-09-22")):
        code, out, err = cotenant(*words, *window)
        assert (code, out) == (1, "")
        (line,) = err.splitlines()
        assert "nothing was recorded in this window; recorded is 2026-09-21 14:13:20 to" in line


@pytest.mark.parametrize(
    ("window", "recorded"),
    [
        (("14:20:00", "14:30:00"), "14:13:21 to 14:13:24 UTC and 2026-09-21 14:43:20 to 14:43:24"),
        (("14:50:00", "14:55:00"), "14:43:20 to 14:43:24"),
        (("14:13:22", "14:30:00"), None),
        (("14:20:00", "14:43:22"), None),
    ],
)
def test_a_window_between_two_recordings_fails_with_both(tmp_path, cotenant, window, recorded):
    other = VirtualStore(tmp_path / "two")
    for other.later_ns in (0, 1_800 * SECOND):
        ended_ns = NOW_NS + other.later_ns + 4 * SECOND
        other.recording(other.later_ns, ended_ns=ended_ns)
        row = {"timestamp_ns": NOW_NS + SECOND, "op": "alloc", "kernel_name": "[alloc]"}
        row |= {"api": "cuMemAlloc_v2", "duration_ns": 1, "result": 0, "bytes": 7}
        other.add("cuda_events", "train", row)
        other.add("cuda_events", "train", row | {"timestamp_ns": NOW_NS + 4 * SECOND})
    root = other.write()
    start, end = (f"2026-09-21 {moment}" for moment in window)
    for question in ("gpu_use", "slow_calls", "compare_windows"):
        code, _, err = cotenant("ask", question, "--from", start, "--to", end, root=root)
        assert code == (recorded is not None)
        assert recorded is None or recorded in err
