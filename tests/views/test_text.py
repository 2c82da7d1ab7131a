"""Units, tables and lines for people."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.query.engine.answer import Interval, Loss, Standing
from cotenant.views import moments, text, units
from cotenant.views.moments import interval
from cotenant.views.tables import Layout, table

NOW_NS = 1_790_000_000_000_000_000


@pytest.fixture(autouse=True)
def utc():
    moments.show_utc(True)
    yield
    moments.show_utc(False)


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1 us"),
        (1_234, "1.23 us"),
        (999_999, "1.00 ms"),
        (12_345_678, "12.3 ms"),
        (1_500_000_000, "1.50 s"),
        (7_200_000_000_000, "7,200 s"),
    ],
)
def test_a_duration_has_three_digits_and_a_unit(ns, shown):
    assert text.duration(ns) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0 B"), (1_023, "1023 B"), (1_024, "1 KiB"), (1_610_612_736, "1.50 GiB")],
)
def test_a_size_counts_in_powers_of_two(number, shown):
    assert text.size(number) == shown


def test_an_interval_within_a_day_names_the_day_once():
    assert interval(Interval(NOW_NS, NOW_NS + 61 * 10**9)) == "2026-09-21 14:13:20 to 14:14:21 UTC"


def test_an_interval_over_days_names_both():
    shown = "2026-09-21 14:13:20 to 2026-09-22 14:13:20 UTC"
    assert interval(Interval(NOW_NS, NOW_NS + 86_400 * 10**9)) == shown


def test_numbers_stand_right_and_text_left():
    assert table(["name", "n"], [["a", 1], ["bb", 1_000], [None, None]], Layout(80)) == [
        "name     n",
        "----  ----",
        "a        1",
        "bb    1000",
        "NULL  NULL",
    ]


def test_control_characters_in_a_name_do_not_reach_the_terminal():
    assert text.cell("a\x1b[31m\nb") == "a\ufffd[31m\ufffdb"


def test_columns_that_may_not_be_elided_stay_whole():
    lines = table(["id", "text"], [["x" * 12, "y" * 30]], Layout(30), frozenset({"id"}))
    assert lines[2] == "x" * 12 + "  " + "y" * 15 + "…"


values = st.none() | st.integers() | st.floats() | st.text(max_size=50) | st.booleans()


@given(st.lists(st.lists(values, min_size=4, max_size=4), max_size=5), st.integers(40, 200))
def test_no_line_is_ever_wider_than_the_screen(rows, width):
    names = ["a", "a_rather_long_name", "c", "d"]
    assert max(map(len, table(names, rows, Layout(width)))) <= width


def test_an_answer_that_lacks_nothing_says_so():
    standing = Standing("", Interval(NOW_NS, NOW_NS), (Loss("cuda", 7, 0, 0),))
    assert text.incompleteness(standing) == []
    assert text.summary(7, standing) == "(7 rows; 2026-09-21 14:13:20 to 14:13:20 UTC; complete)"


def test_an_answer_that_lacks_something_says_what():
    standing = Standing("", None, (Loss("cuda", 1_234, 12, 5), Loss("nccl", 3, 0, 0)), 2)
    assert text.incompleteness(standing) == [
        "incomplete: 12 of 1,234 cuda events were lost",
        "incomplete: 5 of 1,234 cuda events have no row of their own, but count in the weight of "
        "others",
        "incomplete: 2 segments are missing",
    ]
    assert text.summary(1, standing) == "(1 row)"


def test_where_a_screen_is_narrow_headings_take_two_lines():
    rows = [["ml/train", 3], ["ml/serve", 1_009]]
    assert table(["tenant", "requests_beside"], rows, Layout(20)) == [
        "          requests_",
        "tenant       beside",
        "--------  ---------",
        "ml/train          3",
        "ml/serve       1009",
    ]


def test_what_does_not_fit_is_named_with_the_way_out():
    rows = [["ml/train", 1_000_003, 2_000_003]]
    lines = table(["tenant", "launches", "copies"], rows, Layout(24, way_out="--wide"))
    assert lines[0] == "tenant    launches"
    assert lines[-1] == "(1 more column does not…"
    lines = table(["tenant", "launches", "copies"], rows * 2, Layout(20, way_out="-w"))
    assert "ml/train   1000003" in lines
    assert table(["tenant", "launches", "copies"], rows, Layout(None))[-1] == (
        "ml/train   1000003  2000003"
    )


def test_two_columns_never_have_one_heading():
    names = ["tenant", "slowest_ns", "slowest_at_ns", "neighbour", "neighbour_bytes"]
    values = [["a"], [1_000], [NOW_NS], ["b"], [1_024]]
    lines = units.table(names, values, Layout(vertical=True))
    assert lines == [
        "--- row 1",
        "tenant            a",
        "neighbour         b",
        "slowest           1 us",
        "slowest_at (UTC)  2026-09-21 14:13:20.000",
        "neighbour_bytes   1 KiB",
    ]


def test_a_moment_is_shown_in_the_zone_of_whoever_looks(monkeypatch):
    moments.show_utc(False)
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    assert interval(Interval(NOW_NS, NOW_NS)) == "2026-09-21 16:13:20 to 16:13:20 CEST"
    later = NOW_NS + 60 * 86_400 * 10**9
    both = "2026-09-21 16:13:20 CEST to 2026-11-20 15:13:20 CET"
    assert interval(Interval(NOW_NS, later)) == both
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
