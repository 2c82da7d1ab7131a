"""The identity of losses, term by term."""

import numpy as np

from cotenant.agent.recorder.samplers.losses import Fate, Losses, Tally

ONE = Tally("cuda", 7, 0, 0)
OTHER = Tally("io", 11, 3, 0)


def owners(entries):
    return entries["cgroup_id"].astype(np.int64) * 1000


def balanced() -> Losses:
    losses = Losses(owners)
    losses.count(ONE, Fate(seen=101, shed=13, lost=5, over_budget=2))
    losses.appended([(ONE, 83)])
    return losses


def test_rows_are_stored_when_they_are_sealed_and_queued_until_then():
    losses = balanced()
    assert losses.queued(ONE) == 83
    losses.sealed()
    assert losses.queued(ONE) == 0
    assert losses.imbalance() == {}


def test_rows_that_were_given_up_are_lost():
    losses = balanced()
    losses.give_up_waiting()
    assert losses.lost[ONE] == 88
    assert losses.imbalance() == {}
    table = losses.sample(1).to_pylist()
    assert [(row["lost"], row["reason"]) for row in table] == [
        (88, "ring full, store behind, over its share, over budget")
    ]


def test_a_hidden_drop_is_an_imbalance():
    losses = balanced()
    losses.sealed()
    losses.lost[ONE] -= 1
    assert losses.imbalance() == {ONE: 1}


def test_an_event_stored_twice_is_an_imbalance():
    losses = balanced()
    losses.appended([(ONE, 1)])
    losses.sealed()
    assert losses.imbalance() == {ONE: -1}


def test_rows_without_a_count_are_no_imbalance():
    losses = balanced()
    losses.appended([(OTHER, 2)])
    losses.sealed()
    losses.orphans = 2
    assert losses.imbalance() == {}
    losses.orphans = 1
    assert losses.imbalance() == {OTHER: -2}


def test_each_window_adds_up_and_is_told_once():
    losses = balanced()
    (row,) = losses.sample(1).to_pylist()
    assert row == {
        "timestamp_ns": 1, "family": "cuda", "cgroup_id": 7000, "seen": 101, "stored": 0,
        "shed": 13, "lost": 5, "queued": 83, "reason": "ring full, over its share, over budget",
        "from_ns": 1, "to_ns": 1, "unseen": None,
    }  # fmt: skip
    losses.sealed()
    (row,) = losses.sample(2).to_pylist()
    assert (row["seen"], row["stored"], row["queued"], row["reason"]) == (0, 83, -83, None)
    assert (row["from_ns"], row["to_ns"]) == (None, None)
    assert losses.sample(3).num_rows == 0
    losses.gave_up([(ONE, 1)])
    (row,) = losses.sample(4).to_pylist()
    assert (row["from_ns"], row["to_ns"], row["lost"]) == (3, 4, 1)


def test_tenants_that_are_gone_are_forgotten_and_stay_in_the_sums():
    losses = balanced()
    losses.sealed()
    losses.sample(1)
    losses.forget(lambda tally: True)
    assert losses.seen == {}
    assert {term: losses.total(term) for term in ("seen", "stored", "shed", "lost")} == {
        "seen": 101, "stored": 83, "shed": 13, "lost": 5,
    }  # fmt: skip
