"""GPU time in words."""

import pytest

from cotenant.query.derived.gpu_use.statement import between, stated, time

S = 1_000_000_000
KNOWN = {
    "gpu_time_ns": 2 * S,
    "gpu_time_ci_low_ns": 7 * S // 10,
    "gpu_time_ci_high_ns": 6 * S,
    "gpu_time_high_ns": 38_800_000_000,
    "gpu_time_low_ns": 0,
}


@pytest.mark.parametrize(
    ("ns", "said"),
    [(4.9 * S, "4.9 s"), (38.8 * S, "39 s"), (12e6, "12 ms"), (410e3, "410 us"), (0, "0")],
)
def test_a_time_has_two_digits_and_a_unit(ns, said):
    assert time(ns) == said


def test_an_interval_has_one_unit_if_both_ends_have_it():
    assert between(0.7 * S, 6 * S) == "700 ms to 6 s"
    assert between(4.8 * S, 5 * S) == "4.8 to 5 s"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("waits", "2 s (700 ms to 6 s)"),
        ("borrowed", "2 s (700 ms to 6 s), timed in tenant uploader"),
        ("prior", "not known: at most 39 s; 2 s (700 ms to 6 s) if its kernels are like others'"),
    ],
)
def test_what_is_known_from_elsewhere_says_from_where(source, said):
    assert stated(KNOWN | {"source": source, "source_tenant": "uploader"}) == said


def test_what_is_not_known_is_bounded():
    row = KNOWN | {"source": "none", "gpu_time_ns": None}
    assert stated(row) == "not known: at most 39 s, at least 0"
