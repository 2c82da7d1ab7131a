"""Times of which a store keeps no rows, by table: they were let go, or never brought.

A time without rows may as well be one in which nothing happened; so whoever leaves rows out notes
it in the manifest. What nobody noted is taken for kept.
"""

from collections.abc import Iterable, Mapping
from typing import Final

EVER_NS: Final = 1 << 62

Times = tuple[tuple[int, int], ...]  # From when to before when, in order and apart.
Absent = Mapping[str, Times]  # By table; those that have none are left out.


def either(*times: Times) -> Times:
    """What is in any of them."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(piece for each in times for piece in each):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        elif start < end:
            found.append((start, end))
    return tuple(found)


def both(some: Times, others: Times) -> Times:
    """What is in one and in the other."""
    found, rest = [], list(reversed(others))
    for start, end in some:
        while rest and rest[-1][1] <= start:
            rest.pop()
        while rest and rest[-1][0] < end:
            other_start, other_end = rest[-1]
            found.append((max(start, other_start), min(end, other_end)))
            if other_end > end:
                break
            rest.pop()
    return tuple(found)


def outside(start_ns: int, end_ns: int) -> Times:
    """All but the time between these."""
    return either(((0, start_ns), (end_ns, EVER_NS)))


def with_more(absent: Absent, more: Iterable[tuple[str, Times]]) -> dict[str, Times]:
    """These times, and more of some tables."""
    found = dict(absent)
    for table, times in more:
        if joined := either(found.get(table, ()), times):
            found[table] = joined
    return found
