"""Names in graphs: a tenant that renames its kernels again and again is bounded, and told."""

import pytest

from cotenant.agent.process import Process
from cotenant.agent.recorder.processes import graph_names
from cotenant.agent.recorder.processes import graphs as module
from cotenant.agent.recorder.processes.graphs import Graphs
from tests.unit.agent.recorder.processes.test_graphs import ONE, Story

SECOND = 1_000_000_000
LONG, MOST = 8_000, 1_000_000
ROOM = MOST // 2 // LONG - 1  # Names that one tenant may have.


class Renaming(Story):
    """One handle that has another name each time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(step_ns=1000)
        monkeypatch.setattr(graph_names, "_BYTES_MAX", MOST)
        self.graphs = Graphs(self.names, "node/boot", lambda v2, _: f"/{v2}")
        self._number = 0

    def add(self, count: int, process: Process = ONE, graph: int = 100) -> None:
        for _ in range(count):
            self.rename(process)
            self.tell(
                "cuGraphAddKernelNode_v2", process,
                handle=graph, other=5, address=10_000 + self._number,
            )  # fmt: skip

    def rename(self, process: Process = ONE) -> None:
        self._number += 1
        self.names.learn(process, 5, f"{self._number:08}" + "k" * LONG, self.now + 1)

    def size(self) -> int:
        """Bytes of all the names that there are."""
        kept = {id(n): n for known in self.graphs._processes.values() for n in known.names()}
        return sum(map(len, kept.values()))


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> Renaming:
    return Renaming(monkeypatch)


def test_a_tenant_has_as_many_bytes_of_names_as_it_leaves_to_others(story: Renaming) -> None:
    story.add(307)
    assert ROOM * LONG < story.size() < MOST // 2
    assert story.graphs.refused == {"/0": 307 - ROOM}
    for at in range(11):
        about = {"handle": 7, "address": 1 + at, "other": at}
        story.tell("cuGraphAddKernelNode_v2", Process(8, 1000), cgroup_id=1, **about)
    story.tell("cuGraphInstantiateWithFlags", Process(8, 1000), cgroup_id=1, handle=7, address=9)
    assert story.kernels() == [{f"unknown@?+{at:#x}": 1 for at in range(11)}]
    assert set(story.graphs.refused) == {"/0"}


def test_a_name_that_many_nodes_have_is_kept_once(story: Renaming) -> None:
    story.rename()
    for node in range(1, 1010):
        story.tell("cuGraphAddKernelNode_v2", handle=100, other=5, address=node)
    assert len(set(map(id, story.graphs._processes[ONE].graphs[100].nodes.values()))) == 1
    assert story.graphs.refused == {}


def test_names_of_graphs_that_are_gone_make_room_after_a_while(story: Renaming) -> None:
    story.add(ROOM + 7)
    story.tell("cuGraphDestroy", handle=100)
    story.graphs._processes[ONE].node_kernels.clear()
    story.add(1)
    assert story.graphs.refused == {"/0": 8}  # They are not looked for at each name.
    story.now += 10 * SECOND
    story.add(ROOM)
    assert story.graphs.refused == {"/0": 8}


def test_names_of_ended_processes_go_before_new_ones_are_refused(story: Renaming) -> None:
    for run in range(1, 24):
        story.now += 10 * SECOND
        story.add(ROOM // 2, Process(run, 1000))
        story.graphs.gone(Process(run, 1000))
    assert story.graphs.refused == {}
    assert len(story.graphs._processes) < 5


def test_what_runs_a_kernel_whose_name_has_no_room_is_unknown(story: Renaming) -> None:
    story.tell("cuGraphAddKernelNode_v2", handle=200, other=1, address=1)
    story.tell("cuGraphInstantiateWithFlags", handle=200, address=300)
    story.add(ROOM)
    story.rename()
    story.tell("cuGraphExecKernelNodeSetParams_v2", handle=300, address=1, other=5)
    assert story.graphs.versions(ONE, 300)[-1].number == 0
    assert story.graphs.refused == {"/0": 1}


def test_rows_that_wait_have_as_many_bytes_of_names_as_a_tenant_leaves_to_others(
    story: Renaming, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ROW_BYTES_MAX", 2 * 23 * 10 * LONG)
    story.graphs.take_rows()
    story.add(10)
    for exec_ in range(1, 102):
        story.tell("cuGraphInstantiateWithFlags", handle=100, address=exec_)
    rows = story.graphs.take_rows()
    assert len(rows) == 23 * 10
    assert story.graphs.refused == {"/0": 101 - 23}
    story.tell("cuGraphInstantiateWithFlags", handle=100, address=1)
    assert len(story.graphs.take_rows()) == 10
