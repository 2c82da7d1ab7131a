"""What `/metrics` counts."""

import pytest

from cotenant.errors import TooLarge
from cotenant.query.engine.session import Session
from cotenant.query.screens import counters
from tests.virtual.device import START_NS
from tests.virtual.store import VirtualStore


def test_a_call_on_the_host_that_a_stream_queues_is_no_launch(tmp_path):
    store = VirtualStore(tmp_path / "store")
    for function in ("cuLaunchKernelEx", "cuGraphLaunch", "cuLaunchHostFunc_ptsz", "cuMemAlloc_v2"):
        row = {"timestamp_ns": START_NS, "family": "cuda", "function": function, "count": 3}
        store.add("totals", "train", row | {"sum_ns": 1, "max_ns": 1, "histogram": [3]})
    with Session(store.write()) as session:
        news = counters.since(session, counters.CounterCursor())
    assert {row["function"]: row["launch"] for row in news.totals} == {
        "cuGraphLaunch": True,
        "cuLaunchHostFunc_ptsz": False,
        "cuLaunchKernelEx": True,
        "cuMemAlloc_v2": False,
    }


class FailsOnce:
    """A session in which one question is refused the first time."""

    def __init__(self, session, word):
        self._session, self._word = session, word

    def ask(self, sql):
        if self._word and self._word in sql:
            self._word = None
            raise TooLarge("this needs more memory")
        return self._session.ask(sql)


@pytest.mark.parametrize("word", ["histogram", "blind_ns", "queued_ns"])
def test_a_scrape_that_fails_forgets_nothing(tmp_path, word):
    store = VirtualStore(tmp_path / "store")
    counts = {"seen": 100, "stored": 60, "shed": 0, "lost": 40, "queued": 0}
    store.add("losses", "train", {"timestamp_ns": START_NS, "family": "cuda"} | counts)
    row = {"timestamp_ns": START_NS, "family": "cuda", "function": "cuLaunchKernel", "count": 3}
    store.add("totals", "train", row | {"sum_ns": 1, "max_ns": 1, "histogram": [3]})
    with Session(store.write()) as session:
        whole = counters.since(session, counters.CounterCursor())
        assert whole.fates[0]["lost"] == 40
        cursor, failing = counters.CounterCursor(), FailsOnce(session, word)
        with pytest.raises(TooLarge):
            counters.since(failing, cursor)
        assert counters.since(failing, cursor) == whole
        assert counters.since(failing, cursor).fates == []
