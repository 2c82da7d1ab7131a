"""Each tenant's gap on each library is told, the longest that is known."""

import time

from cotenant.agent.helper.libraries.gaps import Gaps
from cotenant.agent.protocol.reports import AttachGap, Report


def test_a_gap_is_told_once_for_each_tenant_and_again_if_it_was_longer() -> None:
    told: list[Report] = []
    gaps = Gaps(told.append)
    gaps.found("a", "lib", 1, 2)  # Before recording was announced: nobody's loss.
    gaps.begin()
    base = time.monotonic_ns()
    mapped, attached = base + 11, base + 101
    for tenant, later_ns in (("a", 0), ("b", 2), ("a", 5), ("a", -3)):
        gaps.found(tenant, "lib", mapped + later_ns, attached)
    gaps.found("c", "lib", attached + 1, attached)  # It was probed before it was mapped.
    assert told == [
        AttachGap("a", "lib", mapped, attached, probed=True),
        AttachGap("b", "lib", mapped + 2, attached, probed=True),
        AttachGap("a", "lib", mapped - 3, attached, probed=True),
    ]


def test_libraries_that_were_never_probed_are_told_as_one_for_each_tenant() -> None:
    told: list[Report] = []
    gaps = Gaps(told.append)
    gaps.begin()
    base = time.monotonic_ns()
    for number in range(101):
        gaps.found("storm", f"lib{number}", base + number, base + number + 3, probed=False)
    gaps.found("calm", "lib", base, base + 3, probed=False)
    gaps.tell_unprobed()
    gaps.tell_unprobed()
    assert told == [
        AttachGap("storm", "lib0", base, base + 103, probed=False),
        AttachGap("calm", "lib", base, base + 3, probed=False),
    ]
