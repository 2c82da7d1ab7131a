"""A tenant that tells without end is left out beyond its budget, and nobody else is."""

from collections import Counter

import numpy as np

from cotenant.agent.recorder.ingest.fact_budget import FactBudget
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
