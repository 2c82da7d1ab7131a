"""Which GPU a process uses, from what was seen of it and from what was not."""

import uuid

import pytest

from cotenant.agent.process import Process
from cotenant.agent.protocol.reports import DevicesFound
from cotenant.agent.recorder.processes.devices import Devices, _ProcessDevices
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
    devices.device({**CONTEXT, "handle": 0}, PROCESS, bytes(range(16)))
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
        devices.device({**CONTEXT, "handle": device}, PROCESS, bytes([device] * 16))
    green = {**CONTEXT, "function": ids["cuGreenCtxCreate"], "address": 0x6E, "other": 1}
    made = {**CONTEXT, "function": ids["cuCtxFromGreenCtx"], "address": 0xC1, "other": 0x6E}
    devices.context(green, PROCESS)
    devices.context(made, PROCESS)
    assert devices.gpu(PROCESS, 0xC1) == "GPU-01010101-0101-0101-0101-010101010101"
    devices.context({**made, "address": 0xC2, "other": 0x6F}, PROCESS)
    assert devices.gpu(PROCESS, 0xC2) is None


def test_a_process_with_contexts_without_end_is_as_quickly_looked_at_as_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    devices = Devices()
    devices.device({**CONTEXT, "handle": 1}, PROCESS, bytes([1] * 16))
    for address in range(5003):
        devices.context({**CONTEXT, "address": 1 + address, "other": address % 2}, PROCESS)
    asked: list[int | None] = []
    gpu = _ProcessDevices.gpu

    def note(known: _ProcessDevices, device: int | None, *, listed: bool) -> str | None:
        asked.append(device)
        return gpu(known, device, listed=listed)

    monkeypatch.setattr(_ProcessDevices, "gpu", note)
    assert devices.sharing() == {(5, 3): "exclusive"}
    assert sorted(asked, key=str) == [0, 1]


UUID = str(uuid.UUID(bytes=bytes(range(16))))


@pytest.mark.parametrize(
    ("files", "instances", "listed", "gpu"),
    [
        pytest.param((f"GPU-{UUID}",), (), True, f"GPU-{UUID}", id="its own"),
        pytest.param((), (), True, None, id="a neighbour's, without a GPU"),
        pytest.param(("GPU-own",), (), True, "GPU-own", id="a neighbour's"),
        pytest.param(("GPU-a", "GPU-b"), (), True, None, id="a neighbour's, with two GPUs"),
        pytest.param(("/dev/nvidia0",), (), True, f"GPU-{UUID}", id="nobody knows its device's"),
        pytest.param(("GPU-own",), ("MIG-gpu0/gi3",), True, f"MIG-{UUID}", id="an instance"),
        pytest.param((), ("MIG-gpu0/gi3",), True, "MIG-gpu0/gi3", id="an instance of no GPU"),
        pytest.param((), (), False, f"GPU-{UUID}", id="no driver lists any"),
    ],
)
def test_a_process_is_believed_only_what_it_has_open_where_the_driver_tells(
    files: tuple[str, ...], instances: tuple[str, ...], *, listed: bool, gpu: str | None
) -> None:
    devices = Devices()
    devices.context(CONTEXT, PROCESS)
    devices.device({**CONTEXT, "handle": 0}, PROCESS, bytes(range(16)))
    assert devices.gpu(PROCESS, 0xC0) == f"GPU-{UUID}"
    devices.found(DevicesFound(PROCESS, files, instances, mps=False, listed=listed))
    assert devices.gpu(PROCESS, 0xC0) == gpu
    # Looked at again when it is gone, it has nothing open.
    devices.found(DevicesFound(PROCESS, (), (), mps=False, listed=listed, looked=False))
    assert devices.gpu(PROCESS, 0xC0) == gpu


def test_a_process_that_nobody_could_look_at_is_not_believed_where_the_driver_tells() -> None:
    devices = Devices()
    devices.context(CONTEXT, PROCESS)
    devices.device({**CONTEXT, "handle": 0}, PROCESS, bytes(range(16)))
    devices.found(DevicesFound(PROCESS, (), (), mps=False, listed=True, looked=False))
    assert devices.gpu(PROCESS, 0xC0) is None
    assert devices.sharing() == {}


def test_devices_that_no_host_has_are_not_kept() -> None:
    devices = Devices()
    for number in range(1009):
        devices.context({**CONTEXT, "address": 1 + number, "other": number}, PROCESS)
        devices.device({**CONTEXT, "handle": number}, PROCESS, bytes([number % 256] * 16))
    known = devices._processes[PROCESS]
    assert [len(known.devices), len(known.contexts), len(known.uuids)] == [64, 64, 64]
    assert devices.gpu(PROCESS, 64) == f"GPU-{uuid.UUID(bytes=bytes([63] * 16))}"
    assert devices.gpu(PROCESS, 65) is None


def test_contexts_of_one_tenant_leave_room_for_those_of_others() -> None:
    devices = Devices(lambda cgroup_id, _: f"/tenant-{cgroup_id}", most=1000)
    for pid in range(100):
        for address in range(1, 12):
            devices.context({**CONTEXT, "address": address}, Process(pid, 7))
    held = [len(known.contexts) for known in devices._processes.values()]
    assert sum(held) == 500
    assert devices.refused == {"/tenant-5": 600}
    other = {**CONTEXT, "cgroup_id": 6}
    for address in range(1, 101):
        devices.context({**other, "address": address}, PROCESS)
    assert len(devices._processes[PROCESS].contexts) == 100
    # What ended makes room for what its tenant brings next.
    for pid in range(100):
        devices.gone(Process(pid, 7), "/tenant-5")
    devices.device({**CONTEXT, "handle": 0}, Process(200, 7), bytes(16))
    devices.context(CONTEXT, Process(200, 7))
    assert devices.gpu(Process(200, 7), 0xC0) == f"GPU-{uuid.UUID(int=0)}"


def test_processes_whose_end_nobody_tells_leave_room_for_those_of_other_tenants() -> None:
    devices = Devices(lambda cgroup_id, _: f"/tenant-{cgroup_id}", most_processes=1000)
    for pid in range(1009):
        devices.works(Process(pid, 7), (5, 3))
    assert len(devices.take_questions()) == 500
    assert devices.refused == {"/tenant-5": 509}
    for pid in range(2000, 2101):
        devices.device({**CONTEXT, "cgroup_id": 6, "handle": 0}, Process(pid, 7), bytes(16))
        devices.context({**CONTEXT, "cgroup_id": 6}, Process(pid, 7))
    assert len(devices.take_questions()) == 101
    assert devices.refused == {"/tenant-5": 509}
    # What ended makes room for what its tenant brings next.
    for pid in range(211):
        devices.gone(Process(pid, 7), "/tenant-5")
    devices.works(Process(3000, 7), (5, 3))
    assert devices.take_questions() == [Process(3000, 7)]


def test_a_device_without_a_context_any_more_is_not_shared() -> None:
    devices = Devices()
    other = Process(102, 7)
    for process, cgroup_id in ((PROCESS, 5), (other, 6)):
        for device in (0, 1):
            devices.device({**CONTEXT, "handle": device}, process, bytes([device] * 16))
        devices.context({**CONTEXT, "cgroup_id": cgroup_id}, process)
    assert set(devices.sharing().values()) == {"timeslice"}
    # Another one at the same address.
    devices.context({**CONTEXT, "other": 1}, PROCESS)
    assert devices.sharing() == {(5, 3): "exclusive", (6, 3): "exclusive"}
