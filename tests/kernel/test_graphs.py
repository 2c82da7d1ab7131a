"""CUDA graphs: what is captured does not run, what is launched is known kernel by kernel."""

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kernel.conftest import Cgroup, Recording, new_cgroup, record, truth
from tests.kernel.script import Script, warm

LAUNCHES = 7

CAPTURED = """
context, module = start()
first, second, third = (out("cuModuleGetFunction", module, name) for name in
                        (b"first", b"second", b"third"))
a, b = out("cuStreamCreate", 1), out("cuStreamCreate", 1)
fork, join = out("cuEventCreate", 0), out("cuEventCreate", 0)

def capture(kernels, side):
    call("cuStreamBeginCapture_v2", a, 0)
    for kernel in kernels:
        launch(kernel, a)
    # The second stream joins the capture through an event, and comes back through another.
    call("cuEventRecord", fork, a)
    call("cuStreamWaitEvent", b, fork, 0)
    launch(side, b, times=3)
    call("cuEventRecord", join, b)
    call("cuStreamWaitEvent", a, join, 0)
    return out_graph(a)

def out_graph(stream):
    made = c_uint64()
    call("cuStreamEndCapture", stream, byref(made))
    return made.value

graph = capture([first, first, second], third)
exec_ = out("cuGraphInstantiateWithFlags", graph, c_uint64(0))
for _ in range(LAUNCHES):
    call("cuGraphLaunch", exec_, a)
again = capture([first, second, second], third)
info = (c_uint64 * 8)()
call("cuGraphExecUpdate_v2", exec_, again, info)
for _ in range(LAUNCHES + 4):
    call("cuGraphLaunch", exec_, a)
launch(third, b, times=5)
call("cuStreamSynchronize", a)
call("cuGraphExecDestroy", exec_)
""".replace("LAUNCHES", str(LAUNCHES))

BUILT = """
context, module = start()
one, two = (out("cuModuleGetFunction", module, name) for name in (b"one", b"two"))

def params(function):
    data = bytearray(96)
    struct.pack_into("<QIIIIII", data, 0, function, 3, 1, 1, 32, 1, 1)
    return bytes(data)

graph = out("cuGraphCreate", 0)
nodes = [out("cuGraphAddKernelNode_v2", graph, None, c_uint64(0), params(one)) for _ in range(5)]
exec_ = out("cuGraphInstantiateWithFlags", graph, c_uint64(0))
call("cuGraphLaunch", exec_, c_void_p(0))
call("cuGraphExecKernelNodeSetParams_v2", exec_, nodes[0], params(two))
for _ in range(3):
    call("cuGraphLaunch", exec_, c_void_p(0))
call("cuCtxSynchronize")
"""

BROKEN = """
context, module = start()
kernel = out("cuModuleGetFunction", module, b"kernel")
a, b = out("cuStreamCreate", 1), out("cuStreamCreate", 1)
fork, graph = out("cuEventCreate", 0), c_uint64()
call("cuStreamBeginCapture_v2", a, 0)
call("cuEventRecord", fork, a)
call("cuStreamWaitEvent", b, fork, 0)
launch(kernel, a, times=3)
# Not the stream that it began on: it goes on.
call("cuStreamEndCapture", b, byref(graph), result=903)
launch(kernel, b, times=2)
# To wait for a captured stream breaks the capture, which then ends without a graph.
call("cuStreamSynchronize", a, result=900)
call("cuStreamEndCapture", a, byref(graph), result=901)
launch(kernel, a, times=7)
launch(kernel, b, times=11)
call("cuCtxSynchronize")
"""


@dataclass(frozen=True)
class Client:
    """One that has ended, and the recording of it."""

    recording: Recording
    cgroup: Cgroup
    pid: int
    log: Path


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Client]:
    """Each in a cgroup of its own, in one recording."""
    place = tmp_path_factory.mktemp("graphs")
    found: dict[str, Client] = {}
    with ExitStack() as stack, record(place / "store") as recording:
        warm(recording, stack.enter_context(new_cgroup()))
        for text in (CAPTURED, BROKEN, BUILT):
            cgroup, log = stack.enter_context(new_cgroup()), place / f"{len(found)}.log"
            script = Script(cgroup, text, COTENANT_SIM_LOG=str(log))
            script.end()
            found[text] = Client(recording, cgroup, script.pid, log)
        recording.stop()
    return found


def kernels_of(client: Client) -> dict[int, Counter]:
    """By version of its graph."""
    rows = client.recording.sql(
        "select version, kernel_name, nodes from graph_kernels join containers c "
        f"using (cgroup_id) where c.cgroup_path = '/{client.cgroup.name}'"
    )
    found: dict[int, Counter] = {}
    for row in rows:
        found.setdefault(row["version"], Counter())[row["kernel_name"]] += row["nodes"]
    return found


def test_a_captured_launch_is_no_row_and_a_graph_launch_is_one(clients: dict[str, Client]) -> None:
    client = clients[CAPTURED]
    ops = client.recording.sql(
        f"select op, count(*) as rows from cuda_events where pid = {client.pid} "
        "and op in ('launch', 'graph_launch') group by op"
    )
    assert {r["op"]: r["rows"] for r in ops} == {"launch": 5, "graph_launch": 2 * LAUNCHES + 4}
    assert kernels_of(client) == {
        1: Counter(first=2, second=1, third=3),
        2: Counter(first=1, second=2, third=3),
    }


def test_after_a_broken_capture_launches_are_rows_again(clients: dict[str, Client]) -> None:
    client = clients[BROKEN]
    launches = Counter(call.get("captured") for call in truth(client.log) if call["op"] == "launch")
    assert launches == {None: 18, True: 5}
    rows = client.recording.sql(
        f"select stream from cuda_events where pid = {client.pid} and op = 'launch'"
    )
    assert sorted(Counter(row["stream"] for row in rows).values()) == [7, 11]


def test_launches_per_kernel_are_asked_without_counting_twice(clients: dict[str, Client]) -> None:
    client = clients[CAPTURED]
    rows = client.recording.sql(
        "select g.kernel_name, sum(g.nodes) as launches from cuda_events e "
        f"join graph_kernels g using (graph) where e.pid = {client.pid} group by 1"
    )
    more = LAUNCHES + 4
    assert {r["kernel_name"]: r["launches"] for r in rows} == {
        "first": 2 * LAUNCHES + more,
        "second": LAUNCHES + 2 * more,
        "third": 3 * (LAUNCHES + more),
    }
    names = client.recording.sql(
        f"select distinct kernel_name from cuda_events where pid = {client.pid} "
        "and op = 'graph_launch'"
    )
    assert len(names) == 1
    assert names[0]["kernel_name"].startswith("[graph ")


def test_a_node_given_another_kernel_makes_a_new_version(clients: dict[str, Client]) -> None:
    client = clients[BUILT]
    assert kernels_of(client) == {1: Counter(one=5), 2: Counter(one=4, two=1)}
    launches = client.recording.sql(
        f"select count(*) as n from cuda_events where pid = {client.pid} group by graph "
        "having graph is not null order by n"
    )
    assert [r["n"] for r in launches] == [1, 3]
