"""The kernel's totals, read again and again."""

from functools import partial

import numpy as np
import pytest

from cotenant.agent.recorder.ingest.columns.owner import owners
from cotenant.agent.recorder.samplers import totals
from cotenant.agent.recorder.samplers.losses import Losses
from cotenant.agent.recorder.samplers.totals import Totals
from cotenant.identity.ids import NOBODY
from cotenant.identity.ledger import Ledger
from cotenant.probes.tables import FUNCTIONS
from cotenant.schema.layouts import TOTAL, TOTAL_KEY

LAUNCH = next(f.id for f in FUNCTIONS if f.symbol == "cuLaunchKernel")
CPUS = 2


class Entries:
    """One map of the kernel."""

    def __init__(self) -> None:
        self.there = {}

    def items(self):
        return b"".join(self.there), b"".join(value.tobytes() for value in self.there.values())

    def delete(self, key):
        del self.there[key]


class Kernel:
    """The maps, as the programs would fill them."""

    def __init__(self) -> None:
        self.maps = {"totals": Entries(), "spare_totals": Entries()}

    def total(self, cgroup_id: int):
        """The total of launches of a cgroup, on each CPU."""
        key = np.zeros(1, TOTAL_KEY)
        key["cgroup_id"], key["function"] = cgroup_id, LAUNCH
        return self.maps["totals"].there.setdefault(key.tobytes(), np.zeros(CPUS, TOTAL))


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setattr(totals, "possible_cpus", lambda: CPUS)
    return Kernel()


@pytest.fixture
def ledger():
    ledger = Ledger("node", "boot")
    ledger.born(0, 23, "/a", 1)
    return ledger


class Reading(Totals):
    """Totals of windows that the test ends itself."""

    def __init__(self, kernel, ledger):
        self.losses = Losses(partial(owners, ledger))
        self.freed = []
        super().__init__(
            kernel.maps,
            ledger,
            self.losses,
            self.end,
            lambda *what: self.freed.append(what),
        )

    def end(self):
        return self.window

    def read(self, now_ns, window):
        self.window = window
        return self.sample(now_ns)


@pytest.fixture
def read(kernel, ledger):
    return Reading(kernel, ledger)


def test_a_bucket_that_wraps_around_tells_what_was_added(kernel, read):
    total = kernel.total(23)
    total["count"][0] = 2**32 - 3
    total["histogram"][0, 11] = 2**32 - 3
    read.read(1, 0)
    total["count"][0] += 7
    total["histogram"][0, 11] = 4
    (row,) = read.read(2, 1).to_pylist()
    assert row["count"] == sum(row["histogram"]) == 7


def test_the_longest_call_is_of_the_window_that_is_over(kernel, read):
    total = kernel.total(23)
    total["count"] = 1
    # One CPU is in the next window already, the other has had no call since.
    total[0]["window"], total[0]["max_ns"] = 8, 5
    total[0]["previous_window"], total[0]["previous_ns"] = 7, 300
    total[1]["window"], total[1]["max_ns"] = 7, 200
    (row,) = read.read(1, 7).to_pylist()
    assert row["max_ns"] == 300


def test_a_window_without_a_call_has_no_longest(kernel, read):
    total = kernel.total(23)
    total["count"], total["window"], total["max_ns"] = 1, 3, 300
    (row,) = read.read(1, 7).to_pylist()
    assert row["max_ns"] == 0


def test_a_total_that_comes_back_counts_from_nothing(kernel, read, ledger):
    kernel.total(23)["rows"][0] = kernel.total(23)["count"][0] = 101
    read.read(1, 0)
    ledger.removed(0, 23, 2)
    for reading in range(40):
        read.read(2 + reading, 1)
        if not kernel.maps["totals"].there:
            break
    assert not kernel.maps["totals"].there
    kernel.total(23)["rows"][0] = kernel.total(23)["count"][0] = 3
    (row,) = read.read(50, 2).to_pylist()
    assert row["count"] == 3
    assert read.losses.total("seen") == 104


def test_what_is_nobodys_is_never_gone(kernel, read):
    kernel.total(NOBODY)["rows"][0] = 7
    for reading in range(40):
        read.read(1 + reading, 0)
    assert kernel.maps["totals"].there


def test_a_total_is_given_back_to_whom_it_was_taken_from(kernel, read, ledger):
    total = kernel.total(23)
    total["count"] = total["rows"] = 1
    # The cgroup was the host's until somebody said whose it is.
    total["tenant"], total["payer"][1] = 23, 1
    read.read(1, 0)
    assert set(read.tenants.values()) == {23}
    ledger.removed(0, 23, 2)
    for reading in range(40):
        read.read(2 + reading, 1)
    assert not kernel.maps["totals"].there
    assert read.freed == [("totals", 1)]
