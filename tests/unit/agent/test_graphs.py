"""Graphs step by step, with facts as the kernel sends them."""

from collections import Counter

import numpy as np

from cotenant.agent.graphs import Graphs
from cotenant.agent.kernel_names import KernelNames
from cotenant.agent.process import Process
from cotenant.probes.tables import FUNCTIONS
from cotenant.schema.layouts import FACT

ONE = Process(7, 1000)
IDS = {f.symbol: f.id for f in FUNCTIONS}


class Story:
    """Tells facts in order."""

    def __init__(self) -> None:
        self.names = KernelNames()
        for handle, name in ((1, "one"), (2, "two")):
            self.names.learn(ONE, handle, name, 0)
        self.graphs = Graphs(self.names, "node/boot")
        self._now = 0

    def tell(self, symbol: str, **fields: int) -> None:
        self._now += 10
        fact = np.zeros((), FACT)
        fact["function"], fact["timestamp_ns"] = IDS[symbol], self._now
        for name, value in fields.items():
            fact[name] = value
        self.graphs.take(fact, ONE)

    def kernels(self) -> list[Counter[str]]:
        found: dict[str, Counter[str]] = {}
        for row in self.graphs.take_rows():
            found.setdefault(row["graph"], Counter())[row["kernel_name"]] += row["nodes"]
        return list(found.values())


def test_a_child_graph_counts_with_its_parent() -> None:
    story = Story()
    story.tell("cuGraphCreate", address=100)
    story.tell("cuGraphAddKernelNode_v2", handle=100, address=11, other=1)
    story.tell("cuGraphCreate", address=200)
    story.tell("cuGraphAddKernelNode_v2", handle=200, address=12, other=2)
    story.tell("cuGraphAddChildGraphNode", handle=200, address=13, other=100)
    story.tell("cuGraphInstantiateWithFlags", handle=200, address=300)
    assert story.kernels() == [Counter(one=1, two=1)]


def test_a_handle_instantiated_again_is_another_graph() -> None:
    story = Story()
    story.tell("cuGraphCreate", address=100)
    story.tell("cuGraphInstantiateWithFlags", handle=100, address=300)
    first = story.graphs.versions(ONE, 300)[-1].graph
    story.tell("cuGraphExecDestroy", handle=300)
    story.tell("cuGraphInstantiateWithFlags", handle=100, address=300)
    assert story.graphs.versions(ONE, 300)[-1].graph != first


def test_a_graph_that_nobody_saw_made_has_a_name_of_its_own() -> None:
    story = Story()
    (unknown,) = story.graphs.versions(ONE, 300)
    assert unknown.number == 0
    assert story.graphs.versions(ONE, 300) == [unknown]
    assert story.graphs.versions(Process(8, 1000), 300) != [unknown]


def test_nonsense_changes_nothing() -> None:
    story = Story()
    story.tell("cuStreamEndCapture", other=5, address=0)
    story.tell("cuGraphExecUpdate_v2", handle=1, other=2)
    story.tell("cuGraphExecKernelNodeSetParams_v2", handle=1, address=2, other=3)
    story.tell("cuLaunchKernel", handle=1, other=99)
    assert story.kernels() == []
