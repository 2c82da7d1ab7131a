"""Of what tenants bring, each keeps a bounded number."""

from operator import itemgetter

from cotenant.agent.helper.newest import NewestOfEach


def test_a_tenant_that_brings_much_loses_only_its_own_oldest() -> None:
    kept: NewestOfEach[tuple[int, int], str] = NewestOfEach(3, itemgetter(1))
    kept.put("/calm", (7, 100), "mine")
    for pid in range(101):
        kept.put("/storm", (pid, 100 + pid % 5), "theirs")
    assert len(kept) == 4
    assert [key for key, _ in kept] == [(7, 100), (98, 103), (99, 104), (100, 100)]
    assert kept.shows(100)
    assert not kept.shows(101)
    assert kept.pop((7, 100))
    assert not kept.pop((7, 100))
    assert kept.shows(100)
    assert kept.pop((100, 100))
    assert not kept.shows(100)
