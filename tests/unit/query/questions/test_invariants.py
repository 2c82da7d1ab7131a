"""What holds of every answer, whatever was recorded: parts are no more than their whole."""

import os

import pytest

from cotenant.query.engine.session import Session
from cotenant.query.questions.loader import questions
from tests.virtual.anything import CPUS, anything

# Fifty take minutes: COTENANT_STORES=50.
STORES = int(os.environ.get("COTENANT_STORES", "4"))

# In each row of an answer, what is at most what.
AT_MOST = {
    "who_stole_cpu": [("waited_ns", "ran_ns")],
    "gpu_use": [
        ("queued_ns", "time_ns"),
        ("gpu_time_low_ns", "gpu_time_ns"),
        ("gpu_time_ns", "gpu_time_high_ns"),
        ("work_ci_low_ns", "work_ns"),
        ("work_ns", "work_ci_high_ns"),
    ],
    "gpu_overlap": [("overlap_ns", "queued_ns")],
    "rightsize": [("cpus_p50", "cpus_p99"), ("cpus_p99", "cpus_peak")],
    "around_slow_call": [("off_cpu_ns", "duration_ns"), ("cpu_wait_ns", "duration_ns")],
    "sync_stalls": [("cpu_wait_ns", "waited_ns"), ("longest_ns", "waited_ns")],
    "late_ranks": [("last", "collectives")],
    "slow_calls": [("mean_ns", "slowest_ns"), ("slowest_ns", "total_ns")],
    "interference": [("ci_low", "ci_high")],
    "device_time": [("mean_low_ns", "mean_ns"), ("mean_ns", "mean_high_ns")],
    "cold_start": [("until_first_launch_ns", "seen_ns")],
}
PARTS = ("share", "quality", "rises", "p")


def _check(name, row):
    for part in PARTS:
        value = row.get(part)
        assert value is None or -1e-9 <= value <= 1 + 1e-9, (name, part, row)
    for column, value in row.items():
        if column.endswith("_percent") and value is not None:
            assert value <= 100.05, (name, column, row)
    for less, more in AT_MOST.get(name, []):
        if row[less] is not None and row[more] is not None:
            assert row[less] <= row[more] * (1 + 1e-9), (name, less, more, row)


@pytest.fixture(scope="module", params=range(STORES))
def session(request, tmp_path_factory):
    root = anything(tmp_path_factory.mktemp("store") / "store", request.param)
    with Session(root) as opened:
        yield opened


def test_parts_are_no_more_than_their_whole_in_every_answer(session):
    for name, question in questions().items():
        for row in session.ask(question.render()).rows():
            _check(name, row)


def test_a_host_has_no_more_cpus_than_it_has(session):
    rows = session.ask(questions()["rightsize"].render()).rows()
    assert all(row["cpus_peak"] is None or row["cpus_peak"] <= CPUS for row in rows)


def test_operations_take_no_more_than_the_spans_that_they_are_in(session):
    rows = session.ask(
        "select tenant, sum(gpu_ns)::double as ns from kernel_times "
        "where gpu_ns is not null group by tenant"
    ).rows()
    whole = session.ask(
        "select tenant, sum(span_ns)::double as ns from spans group by tenant"
    ).rows()
    spans = {row["tenant"]: row["ns"] for row in whole}
    for row in rows:
        assert row["ns"] <= spans[row["tenant"]] * (1 + 1e-6)


def test_what_thieves_had_adds_up_to_the_wait(session):
    parts = session.ask("select tenant, sum(waited_ns) as ns from cpu_culprits group by tenant")
    whole = session.ask(
        "select tenant, sum(waited_ns) as ns from cpu_contention join containers using (cgroup_id) "
        "group by tenant"
    )
    waits = {row["tenant"]: row["ns"] for row in whole.rows()}
    assert {row["tenant"]: row["ns"] for row in parts.rows()} == waits
