"""Which GPU a process has open, by what the driver lists below /proc."""

from pathlib import Path

from cotenant.agent.devices import Devices
from cotenant.agent.inspector import Driver
from cotenant.agent.process import Process

FIRST = "GPU-11111111-2222-3333-4444-555555555555"
SECOND = "GPU-66666666-7777-8888-9999-000000000000"
PROCESS = Process(101, 7)


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
    fact = {"cgroup_id": 5, "cgroup_v1_id": 0, "address": 0xC0, "other": 0}
    devices.context(fact, PROCESS)
    about = {"pid": PROCESS.pid, "start_ns": PROCESS.start_ns, "mps": False}
    devices.found({**about, "files": files, "instances": instances})
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
            "0000:05:00.0": "GPU UUID: \t GPU-????????-????-????-????-????????????\nnonsense",
        },
    )
    assert found.gpus([3]) == ["/dev/nvidia3"]
    assert told(found.gpus([3]), []) == "/dev/nvidia3"


def test_without_a_driver_the_file_name_is_what_is_known(tmp_path: Path) -> None:
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
