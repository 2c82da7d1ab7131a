"""What the recorder asks the helper about processes: everything, in messages of any helper."""

from itertools import islice
from typing import Any, get_args

import numpy as np

from cotenant.agent.process import Nameless, Process
from cotenant.agent.protocol.codec import Decoder, encode
from cotenant.agent.protocol.reports import Inspected, KernelsFound, Report
from cotenant.agent.protocol.requests import FollowPointers, HandedOut, Inspect, Request
from cotenant.agent.recorder.ingest.clock import WallClock
from cotenant.agent.recorder.processes.communicators import Communicator
from cotenant.agent.recorder.processes.gpu_processes import GpuProcesses
from cotenant.agent.recorder.processes.shares import Shares
from cotenant.identity.ledger import Ledger
from cotenant.schema.layouts import PROCESS

MESSAGE_BYTES = 1 << 18
DECODER: Decoder[Request] = Decoder(get_args(Request))


class Asked:
    """A helper that only listens."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def ask(self, request: Request) -> None:
        self.requests.append(DECODER.decode(encode(request)))

    def hear_until(self, answer: Report, seconds: float) -> bool:
        asked = [each for each in self.requests if isinstance(each, Inspect)]
        return any(Inspected(each.number) == answer for each in asked)


def processes(helper: Asked) -> GpuProcesses:
    return GpuProcesses("seed", Ledger("node", "boot"), helper, "both", WallClock())


def test_every_pointer_that_a_process_was_handed_is_asked_about_once() -> None:
    helper = Asked()
    gpus = processes(helper)
    name = b"\xff" * 40  # Six bytes each, once encoded.
    for _ in range(2):
        for address in range(1, 348):
            fact = {"pid": 7, "process_start_ns": 3, "handle": address, "other": 12050, "rank": 2}
            gpus.handlers()["POINTER"](fact, name)
            gpus.handlers()["POINTER"](fact, name + b"_no_function_has_so_long_a_name")
        gpus.look_up([])
    requests = [each for each in helper.requests if isinstance(each, FollowPointers)]
    assert requests == helper.requests
    asked = [pointer for request in requests for pointer in request.pointers]
    text = "\N{REPLACEMENT CHARACTER}" * 40
    process = Process(7, 3)
    assert asked == [HandedOut(process, address, text, 12050, 2) for address in range(1, 348)]
    assert max(len(encode(request)) for request in requests) < MESSAGE_BYTES


def test_the_files_of_every_process_with_a_context_are_asked_about() -> None:
    helper = Asked()
    gpus = processes(helper)
    for pid in range(1, 3001):
        fact = {"pid": pid, "process_start_ns": 10**18 + pid, "address": 0xC0, "other": 0}
        gpus.handlers()["CONTEXT"](
            {**fact, "cgroup_id": 5, "cgroup_v1_id": 0, "function": 151}, b""
        )
    gpus.look_up([])
    requests = [each for each in helper.requests if isinstance(each, Inspect)]
    assert requests == helper.requests
    asked = [process for request in requests for process in request.processes]
    assert asked == [Process(pid, 10**18 + pid) for pid in range(1, 3001)]
    # What is waited for comes last.
    numbers = [request.number for request in requests]
    assert numbers == [0] * (len(numbers) - 1) + [1]


def test_a_tenant_with_kernels_without_end_that_nobody_named_does_not_keep_others_nameless() -> (
    None
):
    helper = Asked()
    gpus = processes(helper)
    storm, calm = Process(7, 3), Process(8, 3)
    for process, cgroup_id in ((storm, 5), (calm, 6)):
        gpus._ledger.born(0, cgroup_id, f"/tenant{cgroup_id}")
        gpus.devices.works(process, (cgroup_id, 0))
    many = [Nameless(storm, handle, 0) for handle in range(1, 10_008)]
    wanted = [Nameless(calm, handle, 0) for handle in range(1, 24)]
    asked = list(islice(gpus._in_turn(many + wanted), 4096))
    assert [one for one in asked if one.process == calm] == wanted
    assert len(asked) == 4096


def test_communicators_are_the_tenants_whose_context_or_kernel_names_a_process_has() -> None:
    gpus = processes(Asked())
    gpus.communicators._shares = Shares(1)
    for process, cgroup_id in ((Process(7, 3), 5), (Process(8, 3), 6), (Process(9, 3), 0)):
        if cgroup_id:
            gpus._ledger.born(0, cgroup_id, f"/tenant{cgroup_id}")
        if cgroup_id == 5:
            gpus.devices.works(process, (cgroup_id, 0))
        elif cgroup_id:
            gpus.names.follow(process, gpus._ledger.outermost(cgroup_id))
        for handle in (1, 2):
            gpus.communicators.made(process, handle, Communicator(handle))
    # As long as nobody knows whose a process is, it is nobody's.
    assert gpus.communicators.refused == {"/tenant5": 1, "/tenant6": 2, "": 2}


class Followed:
    """Processes that the kernel follows."""

    def __init__(self) -> None:
        self.processes: set[Process] = set()

    def items(self) -> tuple[bytes, bytes]:
        there = sorted(self.processes)
        values = np.zeros(len(there), PROCESS)
        values["start_ns"] = [process.start_ns for process in there]
        return np.array([process.pid for process in there], np.uint32).tobytes(), values.tobytes()


def learn(gpus: GpuProcesses, process: Process) -> None:
    """As a row, a fact of each kind and an answer of the helper do."""
    fact = {"pid": process.pid, "process_start_ns": process.start_ns, "cgroup_id": 5}
    fact |= {"cgroup_v1_id": 0, "timestamp_ns": 1, "function": 0, "address": 9}
    gpus.devices.works(process, (5, 0))
    gpus.graphs.take(fact, process)
    gpus.communicators.made(process, 1, Communicator(1))
    gpus.kernels_found(KernelsFound(process, ((1, 2, "unknown@lib+0x1", False),)))


def test_processes_that_come_back_after_their_end_are_let_go_of() -> None:
    gpus = processes(Asked())
    followed = Followed()
    maps: Any = {"processes": followed}
    gpus.attach(maps)
    gpus._ledger.born(0, 5, "/tenant5")
    idle, *ended = (Process(pid, 3) for pid in range(1, 3002))
    followed.processes = {idle}
    learn(gpus, idle)
    for process in ended:
        gpus.gone(process, "/tenant5", 0)
        gpus.communicators.gone(process, "/tenant5")
    # More than are remembered as ended: rows and answers make them known again.
    for process in ended:
        learn(gpus, process)
    kinds = (gpus.names, gpus.graphs, gpus.devices, gpus.communicators)
    assert all(ended[0] in kind._processes for kind in kinds)
    gpus.sweep()
    # Some are kept, for rows that are on their way.
    assert all(1 < len(kind._processes) < 3000 for kind in kinds)
    gpus.sweep()
    assert [list(kind._processes) for kind in kinds] == [[idle]] * 4
    assert gpus.devices._process_shares._taken == 1
    assert gpus.names._unknowns._taken == 1
    assert gpus.communicators._shares._taken == 1
    for _ in range(3):
        gpus.sweep()
    assert [list(kind._processes) for kind in kinds] == [[idle]] * 4
