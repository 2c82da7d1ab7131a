"""Which GPU a process uses, from what was seen of it and from what was not."""

from cotenant.agent.devices import Devices
from cotenant.agent.process import Process

PROCESS = Process(101, 7)
CONTEXT = {"cgroup_id": 5, "cgroup_v1_id": 3, "address": 0xC0, "other": 0}
FOUND = {"pid": 101, "start_ns": 7, "files": ["/dev/nvidia3"], "instances": [], "mps": False}


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
