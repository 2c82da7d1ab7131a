"""Which GPU a process uses, from what was seen of it and from what was not."""

from cotenant.agent.process import Process
from cotenant.agent.protocol.reports import DevicesFound
from cotenant.agent.recorder.processes.devices import Devices
from cotenant.probes.tables import FUNCTIONS

PROCESS = Process(101, 7)
CONTEXT = {"function": 151, "cgroup_id": 5, "cgroup_v1_id": 3, "address": 0xC0, "other": 0}
FOUND = DevicesFound(PROCESS, files=("/dev/nvidia3",), instances=(), mps=False)


def test_a_process_that_made_its_context_before_is_looked_at_once() -> None:
    devices = Devices()
    devices.works(PROCESS, (5, 3))
    devices.works(PROCESS, (5, 3))
    assert devices.take_questions() == [PROCESS]
    devices.found(FOUND)
    devices.works(PROCESS, (5, 3))
    assert devices.take_questions() == []
    assert devices.gpu(PROCESS, 0) == "/dev/nvidia3"
    assert devices.gpu(PROCESS, 0xC0) == "/dev/nvidia3"
    assert devices.sharing() == {(5, 3): "exclusive"}


def test_a_process_that_asked_for_a_uuid_but_has_no_known_context_is_looked_at() -> None:
    devices = Devices()
    devices.device({"handle": 0}, PROCESS, bytes(range(16)))
    devices.works(PROCESS, (5, 3))
    assert devices.take_questions() == [PROCESS]


def test_a_process_with_a_new_context_is_looked_at_again() -> None:
    devices = Devices()
    devices.works(PROCESS, (5, 3))
    assert devices.take_questions() == [PROCESS]
    devices.context(CONTEXT, PROCESS)
    devices.works(PROCESS, (5, 3))
    assert devices.take_questions() == [PROCESS]


def test_a_process_that_ended_before_its_rows_came_is_left_alone() -> None:
    devices = Devices()
    devices.gone(PROCESS)
    devices.works(PROCESS, (5, 3))
    assert devices.take_questions() == []
    assert devices.gpu(PROCESS, 0) is None
    assert devices.sharing() == {}


def test_the_context_of_a_green_one_is_on_its_device() -> None:
    ids = {function.symbol: function.id for function in FUNCTIONS}
    devices = Devices()
    for device in (0, 1):
        devices.device({"handle": device}, PROCESS, bytes([device] * 16))
    green = {**CONTEXT, "function": ids["cuGreenCtxCreate"], "address": 0x6E, "other": 1}
    made = {**CONTEXT, "function": ids["cuCtxFromGreenCtx"], "address": 0xC1, "other": 0x6E}
    devices.context(green, PROCESS)
    devices.context(made, PROCESS)
    assert devices.gpu(PROCESS, 0xC1) == "GPU-01010101-0101-0101-0101-010101010101"
    devices.context({**made, "address": 0xC2, "other": 0x6F}, PROCESS)
    assert devices.gpu(PROCESS, 0xC2) is None
