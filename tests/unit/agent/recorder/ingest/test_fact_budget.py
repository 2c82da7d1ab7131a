"""A tenant that tells without end is left out beyond its budget, and nobody else is."""

from collections import Counter

import numpy as np

from cotenant.agent.recorder.ingest.fact_budget import FactBudget
from cotenant.identity.tenant import UNKNOWN
from cotenant.schema.layouts import FACT


def facts(cgroup_id: int, count: int) -> list[bytes]:
    fact = np.zeros(1, FACT)
    fact["cgroup_id"] = cgroup_id
    return [fact.tobytes()] * count


def owner(cgroups: bytes) -> str:
    """Two tenants; all cgroups from 100 on are one's."""
    return "/storm" if int.from_bytes(cgroups[:8], "little") >= 100 else "/calm"


def admitted(budget: FactBudget, told: list[bytes], now: float) -> Counter[str]:
    return Counter(owner(fact[16:32]) for fact in budget.admit(told, now))


def test_many_ranks_that_start_at_once_are_within_the_budget() -> None:
    budget = FactBudget()
    assert admitted(budget, facts(7, 8 * 24_000), 0.0) == {"/calm": 8 * 24_000}
    assert budget.settle(owner) == {}


def test_a_flood_is_left_out_and_counted_and_a_neighbour_is_not() -> None:
    budget = FactBudget()
    total: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    for second in range(10):
        # It takes turns in cgroups of its own making.
        for number in range(100, 110):
            told = facts(number, 50_021) + facts(7, 211)
            total += admitted(budget, told, second + (number - 100) / 10)
            left_out += budget.settle(owner)
    assert total["/calm"] == 10 * 10 * 211
    assert total["/storm"] + left_out["/storm"] == 10 * 10 * 50_021
    assert set(left_out) == {"/storm"}
    assert total["/storm"] < (1 << 18) + 10 * (1 << 16) + 11 * 50_021
    assert admitted(budget, facts(101, 50_021), 60.0) == {"/storm": 50_021}


def test_a_cgroup_that_nobody_knows_yet_is_asked_for_again_and_counted_then() -> None:
    budget = FactBudget()
    most = 1 << 18
    assert len(budget.admit(facts(100, most), 0.0)) == most
    assert budget.admit(facts(100, 5), 0.0) == []
    assert budget.settle(lambda _: None) == {}
    assert budget.admit(facts(100, 7), 0.0) == []
    assert budget.settle(owner) == {"/storm": 12}
    assert budget.settle(owner) == {}


def test_what_was_left_out_of_a_cgroup_that_nobody_ever_knows_is_told_as_nobodys() -> None:
    budget = FactBudget()
    assert budget.admit(facts(100, (1 << 18) + 3), 0.0) == []
    assert budget.settle(lambda _: None) == {}
    assert budget.waits
    budget.admit([], 60.0)
    assert budget.settle(lambda _: None) == {UNKNOWN: (1 << 18) + 3}
    assert not budget.waits
    assert budget.settle(owner) == {}


def test_what_was_left_out_is_told_at_the_end_whoever_it_was() -> None:
    budget = FactBudget()
    budget.admit(facts(100, (1 << 18) + 5), 0.0)
    budget.patience_s = 0.0
    assert budget.settle(lambda _: None) == {UNKNOWN: (1 << 18) + 5}


def test_cgroups_without_number_that_nobody_knows_share_one_budget_and_little_memory() -> None:
    budget = FactBudget()
    most, strangers = 1 << 18, 1 << 16
    for number in range(1, strangers + 1):
        budget.admit(facts(number, 1), 0.0)
    held = len(budget._accounts)
    # There is no room to ask whose these are.
    assert len(budget.admit(facts(strangers + 1, most), 0.0)) == most
    assert budget.admit(facts(strangers + 2, 7), 0.0) == []
    assert len(budget._accounts) == held + 1
    # Once it was asked for the others, whether known or not, there is.
    budget.settle(lambda _: None)
    assert len(budget.admit(facts(strangers + 2, 7), 0.0)) == 7
    assert len(budget._accounts) == 2
    assert budget.settle(owner) == {}
    budget.patience_s = 0.0
    assert budget.settle(owner) == {UNKNOWN: 7}
