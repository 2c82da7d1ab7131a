"""Messages that are counted beside the totals, and move there meanwhile."""

import numpy as np

from cotenant.agent.recorder.samplers.callers import MESSAGES, Callers
from cotenant.agent.recorder.samplers.totals import _hold
from cotenant.schema.layouts import CALLER, TOTAL, TOTAL_KEY

CPUS = 2


class Places:
    def __init__(self, callers) -> None:
        self.callers = callers

    def items(self):
        return bytes(4 * len(self.callers)), self.callers.tobytes()


def key(cgroup, function):
    found = np.zeros(1, TOTAL_KEY)
    found["cgroup_id"], found["function"] = cgroup, function
    return found.tobytes()


def test_each_cpus_messages_are_added_to_the_totals_of_their_cgroup():
    callers = np.zeros((128, CPUS), CALLER)
    callers["cgroup_id"][[5, 9], :] = [[23, 23], [29, 29]]
    callers["count"][5, 0] = (7, 0)
    callers["count"][5, 1] = (4, 3)
    callers["bytes"][5, 1] = (400, 300)
    callers["withheld"][5, 1] = (2, 0)
    names = [key(23, MESSAGES[0]), key(23, MESSAGES[1]), key(29, MESSAGES[0])]
    totals = np.zeros((3, CPUS), TOTAL)
    totals["count"][0] = (100, 0)
    assert Callers(Places(callers), CPUS).add(totals, names) == {0, 1}
    assert totals["count"].tolist() == [[107, 4], [0, 3], [0, 0]]
    assert totals["bytes"].tolist() == [[0, 400], [0, 300], [0, 0]]
    assert totals["shed"].tolist() == totals["rows"].tolist() == [[0, 2], [0, 0], [0, 0]]
    assert totals["withheld"][0, 1] == 2
    assert totals["histogram"][0, 1, 0] == 4


def test_what_is_on_its_way_to_a_total_is_neither_taken_back_nor_counted_twice():
    moving = np.array([True])
    sums, told = np.array([70], np.int64), 100
    delta = sums - told
    _hold(sums, delta, moving)
    assert (sums.tolist(), delta.tolist()) == ([100], [0])
    later = np.array([109], np.int64)
    delta = later - sums
    _hold(later, delta, moving)
    assert (later.tolist(), delta.tolist()) == ([109], [9])
