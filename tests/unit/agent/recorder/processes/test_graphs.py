"""Graphs step by step, with facts as the kernel sends them."""

from collections import Counter

import numpy as np

from cotenant.agent.process import Process
from cotenant.agent.recorder.ingest.batch import Batch
from cotenant.agent.recorder.ingest.columns.graph import GraphColumn
from cotenant.agent.recorder.ingest.columns.kernel import KernelColumn
from cotenant.agent.recorder.processes import graphs as module
from cotenant.agent.recorder.processes.graphs import Graphs
from cotenant.agent.recorder.processes.kernel_names import KernelNames
from cotenant.probes.tables import FUNCTIONS
from cotenant.schema.events import ENUMS
from cotenant.schema.layouts import FACT
from cotenant.schema.wire import Field

ONE = Process(7, 1000)
IDS = {f.symbol: f.id for f in FUNCTIONS}


class Story:
    """Tells facts in order."""

    def __init__(self, step_ns: int = 10) -> None:
        self.names = KernelNames()
        for handle, name in ((1, "one"), (2, "two")):
            self.names.learn(ONE, handle, name, 0)
        self.graphs = Graphs(self.names, "node/boot")
        self.now, self._step = 0, step_ns

    def tell(self, symbol: str, process: Process = ONE, **fields: int) -> None:
        self.now += self._step
        fact = np.zeros((), FACT)
        fact["function"], fact["timestamp_ns"] = IDS[symbol], self.now
        for name, value in fields.items():
            fact[name] = value
        self.graphs.take(fact, process)

    def kernels(self) -> list[Counter[str]]:
        found: dict[str, Counter[str]] = {}
        for row in self.graphs.take_rows():
            found.setdefault(row["graph"], Counter())[row["kernel_name"]] += row["nodes"]
        return list(found.values())


FIELD = Field("", 0, "<u8", "", None, None)


def launches(handle: int, times: list[int]) -> Batch:
    """Rows of graph launches of one process."""
    sort = np.zeros(
        1, [(name, np.uint64) for name in (
            "pid", "process_start_ns", "handle", "stub", "op", "direction", "known",
        )],
    )  # fmt: skip
    sort["pid"], sort["process_start_ns"], sort["handle"] = *ONE, handle
    sort["op"] = next(n for n, text in ENUMS["cuda_op"].items() if text == "graph_launch")
    varying = {"timestamp_ns": np.array(times, np.uint64)}
    return Batch(len(times), varying, np.zeros(len(times), np.int32), sort)


def test_a_graph_within_itself_does_not_grow_beyond_what_can_be_stored():
    story = Story()
    story.tell("cuGraphCreate", address=5)
    story.tell("cuGraphAddKernelNode_v2", handle=5, address=50, other=1)
    for _ in range(101):
        story.tell("cuGraphAddChildGraphNode", handle=5, other=5)
    story.tell("cuGraphInstantiateWithFlags", handle=5, address=9)
    assert story.kernels()[0]["one"] < 1 << 63


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
    (first,) = story.graphs.versions(ONE, 300)
    story.tell("cuGraphExecDestroy", handle=300)
    story.tell("cuGraphInstantiateWithFlags", handle=100, address=300)
    earlier, second = story.graphs.versions(ONE, 300)
    assert (earlier, second.since_ns, second.number) == (first, 40, 1)
    assert second.name != first.name


def test_launches_of_graphs_at_one_address_are_each_named_by_their_own() -> None:
    story = Story()
    times = []
    for kernel in (1, 2, 1):
        story.tell("cuGraphCreate", address=100)
        story.tell("cuGraphAddKernelNode_v2", handle=100, address=11, other=kernel)
        story.tell("cuGraphInstantiateWithFlags", handle=100, address=300)
        times.append(story.now + 1)
        story.tell("cuGraphExecDestroy", handle=300)
        story.tell("cuGraphDestroy", handle=100)
    batch = launches(300, times)
    graphs = GraphColumn(story.graphs).make(batch, FIELD).to_pylist()
    assert [row["graph"] for row in story.graphs.take_rows()] == graphs
    names = KernelColumn(story.names, story.graphs).make(batch, FIELD).to_pylist()
    assert names == [f"[graph {graph.removesuffix('.1')}]" for graph in graphs]
    assert len(set(names)) == 3


def test_an_update_that_changes_nothing_makes_no_version() -> None:
    story = Story()
    story.tell("cuGraphCreate", address=100)
    story.tell("cuGraphAddKernelNode_v2", handle=100, address=11, other=1)
    story.tell("cuGraphInstantiateWithFlags", handle=100, address=300)
    for _ in range(101):
        story.tell("cuGraphExecUpdate_v2", handle=300, other=100)
    assert story.kernels() == [Counter(one=1)]
    story.tell("cuGraphKernelNodeSetParams_v2", handle=11, other=2)
    story.tell("cuGraphExecUpdate_v2", handle=300, other=100)
    assert story.kernels() == [Counter(two=1)]
    assert [v.number for v in story.graphs.versions(ONE, 300)] == [1, 2]


def test_versions_that_no_row_can_need_any_more_are_dropped() -> None:
    story = Story(step_ns=1_000_000_000)
    story.tell("cuGraphCreate", address=100)
    story.tell("cuGraphAddKernelNode_v2", handle=100, address=11, other=1)
    story.tell("cuGraphInstantiateWithFlags", handle=100, address=300)
    for at in range(101):
        story.tell("cuGraphExecKernelNodeSetParams_v2", handle=300, address=11, other=2 - at % 2)
    found = story.graphs.versions(ONE, 300)
    # What is 30 seconds old was superseded since, but it was in use 30 seconds ago.
    assert [v.number for v in found] == list(range(71, 103))
    assert len(story.graphs._past) == len(found) - 1


def test_what_was_destroyed_is_forgotten_after_a_while() -> None:
    story = Story(step_ns=1_000_000_000)
    story.tell("cuGraphCreate", address=100)
    for at in range(101):
        story.tell("cuGraphInstantiateWithFlags", handle=100, address=300 + at)
        story.tell("cuGraphExecDestroy", handle=300 + at)
    known = story.graphs._processes[ONE]
    assert sorted(known.execs) == list(range(385, 401))
    assert len(story.graphs._past) == 16


def test_a_process_with_too_many_graphs_can_still_destroy_them() -> None:
    story = Story()
    for at in range(65536 + 7):
        story.tell("cuGraphCreate", address=1 + at)
    known = story.graphs._processes[ONE]
    assert len(known.graphs) == 65537
    # What there is no room for is counted.
    assert story.graphs.refused == {"": 6}
    for at in range(5):
        story.tell("cuGraphDestroy", handle=1 + at)
    story.tell("cuGraphCreate", address=100_000)
    assert len(known.graphs) == 65533


def test_a_graph_that_nobody_saw_made_has_a_name_of_its_own() -> None:
    story = Story()
    (unknown,) = story.graphs.versions(ONE, 300)
    assert unknown.number == 0
    assert story.graphs.versions(ONE, 300) == [unknown]
    assert story.graphs.versions(Process(8, 1000), 300) != [unknown]


def test_facts_about_unknown_graphs_change_nothing() -> None:
    story = Story()
    story.tell("cuStreamEndCapture", other=5, address=0)
    story.tell("cuGraphExecUpdate_v2", handle=1, other=2)
    story.tell("cuGraphExecKernelNodeSetParams_v2", handle=1, address=2, other=3)
    story.tell("cuLaunchKernel", handle=1, other=99)
    assert story.kernels() == []


def test_a_tenant_that_copies_a_large_graph_again_and_again_is_left_behind_alone():
    story, other = Story(), Process(8, 1000)
    story.graphs = Graphs(story.names, "node/boot", lambda v2, _: f"/{v2}")
    for node in range(1, 10_001):
        story.tell("cuGraphAddKernelNode_v2", handle=100, address=node, other=node << 8)
    for number in range(1, 101):
        story.tell("cuGraphInstantiateWithFlags", handle=100, address=number)
    assert len(story.graphs.take_rows()) <= 65_536
    assert set(story.graphs.refused) == {"/0"}
    assert story.graphs.versions(ONE, 100)[-1].number == 0  # What it runs is not known.

    story.tell("cuGraphAddKernelNode_v2", process=other, cgroup_id=1, handle=7, address=1, other=1)
    story.tell("cuGraphInstantiateWithFlags", process=other, cgroup_id=1, handle=7, address=2)
    assert story.kernels() == [Counter({"unknown@?+0x1": 1})]


def test_a_tenant_that_keeps_graphs_without_end_is_bounded_and_may_go_on_when_it_lets_go():
    story = Story(step_ns=4_000_000_000)
    for node in range(1, 3_001):
        story.tell("cuGraphAddKernelNode_v2", handle=100, address=node, other=node << 8)
    for number in range(1, 301):
        story.tell("cuGraphInstantiateWithFlags", handle=100, address=number)
        story.graphs.take_rows()
    refused = story.graphs.refused[""]
    assert 0 < refused < 300
    for number in range(1, 301):
        story.tell("cuGraphExecDestroy", handle=number)
    story.tell("cuGraphInstantiateWithFlags", handle=100, address=7)
    assert story.graphs.refused[""] == refused
    assert sum(story.kernels()[0].values()) == 3_000


def test_graphs_of_ended_processes_go_before_new_ones_are_refused():
    story = Story(step_ns=4_000_000_000)
    for run in range(1, 11):
        process = Process(run, 1000)
        for node in range(1, 1_001):
            story.tell(
                "cuGraphAddKernelNode_v2", process=process, handle=100, address=node, other=node
            )
        for number in range(1, 101):
            story.tell("cuGraphInstantiateWithFlags", process=process, handle=100, address=number)
            story.graphs.take_rows()
        story.graphs.gone(process)
    assert story.graphs.refused == {}


def test_a_tenant_that_instantiates_without_end_takes_no_version_from_another():
    story, calm = Story(), Process(8, 1000)
    story.graphs = Graphs(story.names, "node/boot", lambda v2, _: f"/{v2}", most_past=300)
    for kernel in (1, 2):
        story.tell("cuGraphCreate", process=calm, cgroup_id=1, address=100)
        story.tell(
            "cuGraphAddKernelNode_v2",
            process=calm,
            cgroup_id=1,
            handle=100,
            address=11,
            other=kernel,
        )
        story.tell(
            "cuGraphInstantiateWithFlags", process=calm, cgroup_id=1, handle=100, address=300
        )
    story.tell("cuGraphInstantiateWithFlags", process=calm, cgroup_id=1, handle=100, address=400)
    story.tell("cuGraphExecDestroy", process=calm, cgroup_id=1, handle=400)
    for _ in range(1009):
        story.tell("cuGraphInstantiateWithFlags", handle=100, address=300)
        story.tell("cuGraphExecDestroy", handle=300)
    assert len(story.graphs.versions(calm, 300)) == 2
    assert story.graphs.versions(calm, 400)[0].number == 1
    # Its own past is bounded: by what it leaves to others.
    assert len(story.graphs._past) == 2 + (300 - 2) // 2
    assert len(story.graphs.versions(ONE, 300)) < 300


def test_the_past_of_a_tenant_without_facts_is_forgotten_too():
    story, other = Story(step_ns=1_000_000_000), Process(8, 1000)
    story.graphs = Graphs(story.names, "node/boot", lambda v2, _: f"/{v2}")
    story.tell("cuGraphInstantiateWithFlags", handle=100, address=300)
    story.tell("cuGraphExecDestroy", handle=300)
    for _ in range(31):
        story.tell("cuGraphCreate", process=other, cgroup_id=1, address=100)
    assert len(story.graphs._past) == 0
    assert story.graphs._past._by_tenant == {}


def test_nodes_that_are_asked_about_are_bounded_by_tenant_and_go_with_their_process(monkeypatch):
    monkeypatch.setattr(module, "_HELD_MAX", 1_000)
    story = Story()
    for run in range(1, 5):
        for node in range(1, 401):
            story.tell("cuGraphKernelNodeGetParams_v2", Process(run, 1000), handle=node, address=1)
    kept = sum(len(known.node_kernels) for known in story.graphs._processes.values())
    assert (kept, story.graphs.refused[""]) == (1_000, 600)
    for run in range(1, 5):
        story.graphs.gone(Process(run, 1000))
    assert not any(known.node_kernels for known in story.graphs._processes.values())
