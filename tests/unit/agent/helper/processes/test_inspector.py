"""Which GPU a process has open, by what the driver lists below /proc."""

import os
import queue
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cotenant.agent.channel import Closed
from cotenant.agent.helper.discovery.mounts import library_path
from cotenant.agent.helper.fair_queue import PassedOver
from cotenant.agent.helper.processes import devices, inspector
from cotenant.agent.helper.processes.devices import Driver, look_at_files
from cotenant.agent.helper.processes.inspector import Inspector
from cotenant.agent.process import Nameless, Process
from cotenant.agent.protocol.codec import encode
from cotenant.agent.protocol.reports import (
    DevicesFound,
    Inspected,
    KernelFound,
    KernelsFound,
    Report,
    TextsRead,
    Trouble,
    WorkPassedOver,
)
from cotenant.agent.protocol.requests import Inspect
from cotenant.agent.recorder.processes.devices import Devices
from cotenant.schema.layouts import UNREAD

FIRST = "GPU-11111111-2222-3333-4444-555555555555"
SECOND = "GPU-66666666-7777-8888-9999-000000000000"
PROCESS = Process(101, 7)


class Everybody:
    """Every process was reported by a probe."""

    def __contains__(self, _: object) -> bool:
        return True


EVERYBODY = Everybody()
FILES: Any = None  # Nothing here reads any.


def driver(place: Path, gpus: dict[str, str], minors: str = "") -> Driver:
    """A driver's tree, as it is below /proc."""
    for bus, information in gpus.items():
        directory = place / "nvidia/gpus" / bus
        directory.mkdir(parents=True)
        (directory / "information").write_text(information)
    (place / "nvidia-caps").mkdir(parents=True)
    (place / "nvidia-caps/mig-minors").write_text(minors)
    return Driver(place)


def information(uuid: str, minor: int) -> str:
    return (
        "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 62\n"
        f"GPU UUID: \t {uuid}\nVideo BIOS: \t 96.00.89.00.01\nBus Type: \t PCIe\n"
        f"Device Minor: \t {minor}\nGPU Excluded:\t No\n"
    )


def told(files: list[str], instances: list[str]) -> str | None:
    """The GPU of a process that never asked for a UUID, with these files open."""
    devices = Devices()
    fact = {"cgroup_id": 5, "cgroup_v1_id": 0, "function": 151, "address": 0xC0, "other": 0}
    devices.context(fact, PROCESS)
    devices.found(DevicesFound(PROCESS, tuple(files), tuple(instances), mps=False))
    return devices.gpu(PROCESS, 0xC0)


def test_the_one_open_device_file_is_known_by_its_uuid(tmp_path: Path) -> None:
    found = driver(
        tmp_path,
        {"0000:04:00.0": information(FIRST, 0), "0000:84:00.0": information(SECOND, 1)},
    )
    assert found.gpus([1]) == [SECOND]
    assert found.gpus([0, 1]) == [FIRST, SECOND]
    assert told(found.gpus([1]), []) == SECOND
    assert told(found.gpus([0, 1]), []) is None


def test_a_device_that_the_driver_does_not_list_keeps_its_file_name(tmp_path: Path) -> None:
    found = driver(
        tmp_path,
        {
            "0000:04:00.0": information(FIRST, 0),
            "0000:05:00.0": information("GPU-????????-????-????-????-????????????", 3),
            "0000:06:00.0": "nonsense",
        },
    )
    assert found.lists()
    assert found.gpus([3]) == ["/dev/nvidia3"]
    assert told(found.gpus([3]), []) == "/dev/nvidia3"


def test_without_a_driver_the_file_name_is_what_is_known(tmp_path: Path) -> None:
    assert not Driver(tmp_path / "none").lists()
    assert Driver(tmp_path / "none").gpus([0]) == ["/dev/nvidia0"]
    assert Driver(tmp_path / "none").instances([21]) == ["MIG-cap21"]


def test_capability_files_tell_the_innermost_instance(tmp_path: Path) -> None:
    minors = "config 1\nmonitor 2\ngpu0/gi3/access 21\ngpu0/gi3/ci0/access 22\nnonsense\n"
    found = driver(tmp_path, {"0000:04:00.0": information(FIRST, 0)}, minors)
    assert found.instances([21, 22]) == ["MIG-gpu0/gi3/ci0"]
    assert found.instances([21]) == ["MIG-gpu0/gi3"]
    assert found.instances([1, 2]) == []
    assert told(found.gpus([0]), found.instances([21, 22])) == "MIG-gpu0/gi3/ci0"
    assert told(found.gpus([0]), found.instances([1, 2])) == FIRST


def answers(question: Inspect, symbols: Any) -> list[Report]:
    """What the inspector says to a question, up to its end."""
    told: queue.SimpleQueue[Report] = queue.SimpleQueue()
    asked = Inspector(told.put, PassedOver(), EVERYBODY, FILES)
    asked._symbols_of = lambda _: symbols  # type: ignore[method-assign]
    asked.start()
    asked.ask(question)
    found: list[Report] = []
    while Inspected(question.number) not in found:
        found.append(told.get(timeout=20))
    return found


def handles(reports: list[Report]) -> list[int]:
    """Of the kernels that are named."""
    found = [report for report in reports if isinstance(report, KernelsFound)]
    return [kernel.handle for report in found for kernel in report.kernels]


def test_of_a_process_that_no_probe_reported_nothing_is_told() -> None:
    me = Process(os.getpid(), 7)
    told: queue.SimpleQueue[Report] = queue.SimpleQueue()
    asked = Inspector(told.put, PassedOver(), (), FILES)
    asked.start()
    asked.ask(Inspect(7, (me,), (Nameless(me, 0, 0xC0),)))
    found = [told.get(timeout=20) for _ in range(3)]
    assert found == [
        DevicesFound(me, (), (), mps=False, looked=False),
        KernelsFound(me, (KernelFound(0, 0xC0, "unknown@?+0xc0", known=False),)),
        Inspected(7),
    ]


class LongTexts:
    """A tenant with a long string at every address."""

    def next_question(self) -> None:
        pass

    def texts(self, process: Process, addresses: list[int]) -> list[str]:
        return ["\N{REPLACEMENT CHARACTER}" * 20_000] * len(addresses)

    def kernel(self, nameless: Any) -> tuple[str, bool]:
        if nameless.handle == 13:
            raise OverflowError("int too large")
        return "k" * 20_000, True


def test_long_answers_come_in_messages_that_each_can_be_sent() -> None:
    kernels = tuple(Nameless(PROCESS, handle, 0) for handle in range(12))
    found = answers(Inspect(5, kernels=kernels), LongTexts())
    assert handles(found) == list(range(12))
    assert max(len(encode(report)) for report in found) < 1 << 18
    assert {type(report) for report in found[:-1]} == {KernelsFound}


def test_a_question_that_fails_leaves_the_others_answered(monkeypatch) -> None:
    def look(process: Process) -> DevicesFound:
        if process.pid == 3:
            raise ValueError("no number")
        return DevicesFound(process, (), (), mps=False)

    monkeypatch.setattr(inspector, "look_at_files", look)
    kernels = tuple(Nameless(PROCESS, handle, 0) for handle in (11, 13, 17))
    processes = (Process(2, 1), Process(3, 1), Process(5, 1))
    found = answers(Inspect(5, processes, kernels), LongTexts())
    # In whatever order: each tenant has a thread of its own.
    troubles = {report.text for report in found if isinstance(report, Trouble)}
    assert troubles == {"ValueError: no number", "OverflowError: int too large"}
    devices = [report for report in found if isinstance(report, DevicesFound)]
    assert sorted(report.process.pid for report in devices) == [2, 5]
    assert handles(found) == [11, 17]


def test_the_inspector_ends_when_the_recorder_is_gone() -> None:
    def tell(_: Report) -> None:
        raise Closed("the other process is gone")

    asked = Inspector(tell, PassedOver(), EVERYBODY, FILES)
    asked.start()
    asked.ask(Inspect(processes=(PROCESS,)))
    deadline = time.monotonic() + 20
    while len(asked._workers._threads) != 1 or asked._workers._busy:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_an_environment_is_read_no_further_than_a_mebibyte(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    class Endless:
        def __enter__(self) -> "Endless":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def read(self, size: int = -1) -> bytes:
            read.append(size)
            return b"LD_LIBRARY_PATH=/opt/lib/:relative\0"

    monkeypatch.setattr("builtins.open", lambda *_: Endless())
    assert library_path(os.getpid()) == ("/opt/lib",)
    assert read == [1 << 20]


def started_ns(pid: int) -> int:
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return ticks * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))


def test_the_files_of_another_process_with_the_same_number_tell_nothing(tmp_path: Path) -> None:
    began_ns = started_ns(os.getpid())
    with (tmp_path / "nvidia-mps").open("w"):
        itself = look_at_files(Process(os.getpid(), began_ns))
        earlier = look_at_files(Process(os.getpid(), began_ns - 10**9))
    assert (itself.mps, earlier.mps) == (True, False)


def test_a_device_counts_if_it_is_open_and_not_if_only_its_path_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    null = os.stat("/dev/null").st_rdev
    monkeypatch.setattr(devices, "_NVIDIA_MAJOR", os.major(null))
    found = driver(tmp_path, {"0000:04:00.0": information(FIRST, os.minor(null) + 1)})
    monkeypatch.setattr(devices, "Driver", lambda: found)
    for how, files in ((os.O_PATH, ()), (os.O_RDONLY, (f"/dev/nvidia{os.minor(null)}",))):
        fd = os.open("/dev/null", how)
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        child = subprocess.Popen(["sleep", "60"], pass_fds=[fd], **pipes)
        try:
            assert look_at_files(Process(child.pid, started_ns(child.pid))).files == files
        finally:
            child.kill()
            child.communicate()
            os.close(fd)


SWAPS = """
import os, sys
device, file = os.open(sys.argv[1], os.O_PATH), os.open(sys.argv[2], os.O_RDONLY)
swapped = os.dup(device)
print("ready", flush=True)
while True:
    os.dup2(file, swapped)
    os.dup2(device, swapped)
"""


def test_a_descriptor_that_is_swapped_while_it_is_looked_at_opens_no_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is a device by its path, then a file that is open; both are of one file system."""
    null = os.stat("/dev/null").st_rdev
    monkeypatch.setattr(devices, "_NVIDIA_MAJOR", os.major(null))
    found = driver(tmp_path, {"0000:04:00.0": information(FIRST, os.minor(null))})
    monkeypatch.setattr(devices, "Driver", lambda: found)
    (tmp_path / "file").write_text("open")
    os.mknod(tmp_path / "device", 0o020600, null)
    words = [sys.executable, "-c", SWAPS, tmp_path / "device", tmp_path / "file"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    child = subprocess.Popen(words, **pipes)
    try:
        assert child.stdout.readline() == b"ready\n"
        process = Process(child.pid, started_ns(child.pid))
        told = {look_at_files(process).files for _ in range(2003)}
    finally:
        child.kill()
        child.communicate()
    assert told == {()}


def unread(*handles: int) -> Any:
    """Handles whose names are somewhere."""
    found = np.zeros(len(handles), UNREAD)
    found["handle"], found["address"] = handles, np.array(handles) + 0x1000
    return found


class Addresses(LongTexts):
    """A tenant whose strings are called after where they lie."""

    def texts(self, process: Process, addresses: list[int]) -> list[str]:
        return [f"at_{address:x}" for address in addresses]


def test_a_name_that_waits_for_its_turn_is_read_when_its_kernel_is_launched() -> None:
    told: queue.SimpleQueue[Report] = queue.SimpleQueue()
    asked = Inspector(told.put, PassedOver(), EVERYBODY, FILES)
    asked._symbols_of = lambda _: Addresses()  # type: ignore[method-assign,return-value]
    kernels = (Nameless(PROCESS, 0, 0x21), Nameless(PROCESS, 0x22, 9))
    asked.ask(Inspect(3, kernels=kernels))
    asked.ask_texts("calm", PROCESS, unread(0x20, 0x21, 0x22))
    asked.start()
    found = (KernelFound(0, 0x21, "at_1021", True), KernelFound(0x22, 9, "at_1022", True))
    assert told.get(timeout=20) == KernelsFound(PROCESS, found)


def test_texts_of_one_tenant_keep_nobody_waiting_and_are_bounded(monkeypatch) -> None:
    monkeypatch.setattr(inspector, "_TEXTS_MAX", 1009)
    monkeypatch.setattr(inspector, "_TEXTS_AT_ONCE", 512)
    told: queue.SimpleQueue[Report] = queue.SimpleQueue()
    passed_over = PassedOver()
    asked = Inspector(told.put, passed_over, EVERYBODY, FILES)
    asked._symbols_of = lambda _: LongTexts()  # type: ignore[method-assign,return-value]
    for numbers in (range(700), range(700, 1013)):
        asked.ask_texts("storm", Process(101, 7), unread(*numbers))
    asked.ask_texts("calm", Process(103, 7), unread(5))
    asked.start()
    texts: list[tuple[int, int]] = []
    while len(texts) < 1009 + 1:
        report = told.get(timeout=20)
        assert isinstance(report, TextsRead)
        texts += [(report.process.pid, text.handle) for text in report.texts]
    # The calm one waited for no more than the other's first turn.
    assert texts.index((103, 5)) <= 512
    assert [handle for pid, handle in texts if pid == 101] == list(range(1009))
    assert passed_over.take_news() == WorkPassedOver({"names": {"storm": 4}})
    assert (asked._waiting, asked._texts) == ({}, {})
