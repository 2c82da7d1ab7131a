"""Killed, out of space, read-only, store gone, power cut: what was sealed stays, and it is said."""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.conftest import SIM, Cgroup, Recording, record, sim_environment
from tests.kernel.objects import held, in_kernel, looked_at

KILLS = 5


def load(cgroup: Cgroup, *, rate: int = 2000) -> "subprocess.Popen[str]":
    """A tenant that launches until it is stopped."""
    words = [SIM / "workload", "launch", "--api", "driver", "--steps", "100000000"]
    return cgroup.popen([*words, "--rate", str(rate)], env=sim_environment())


def family(pid: int) -> list[int]:
    """A recorder and its helper."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


def rows(recording: Recording) -> int:
    return int(recording.sql("select count(*) as n from cuda_events")[0]["n"])


def wait_for_more(recording: Recording, than: int) -> int:
    deadline = time.monotonic() + 30
    while (now := rows(recording)) <= than:
        assert time.monotonic() < deadline, recording.errors.read_text()
        time.sleep(0.2)
    return now


def said(recording: Recording, text: str) -> None:
    deadline = time.monotonic() + 30
    while text not in recording.errors.read_text():
        assert time.monotonic() < deadline, recording.errors.read_text()
        time.sleep(0.1)


def test_killed_at_any_moment_the_store_opens_and_no_probe_is_left(
    cgroup: Cgroup, store: Path
) -> None:
    seed = random.randrange(1 << 32)
    moments = random.Random(seed)
    kept = 0
    tenant = load(cgroup)
    for _ in range(KILLS):
        with record(store, "--quiet") as recording:
            time.sleep(moments.uniform(0.05, 1.7))
            ours = held(family(recording.process.pid))
            with looked_at(ours):
                recording.process.kill()
                recording.process.wait()
                recording.stopped = True
                time.sleep(0.5)  # The helper goes meanwhile.
        found = rows(recording)
        assert found >= kept, f"seed {seed}"
        kept = found
        deadline = time.monotonic() + 20
        assert {kind for kind, _ in ours} == {"link", "map", "prog"}
        while left := ours & in_kernel():
            assert time.monotonic() < deadline, left
            time.sleep(0.05)
    tenant.kill()
    tenant.communicate()
    assert kept > 0
    with record(store, "--quiet") as recording:
        pass
    assert [file for file in store.rglob("*.part")] == []


def test_a_recorder_whose_helper_died_says_so_and_keeps_the_rows(
    cgroup: Cgroup, store: Path
) -> None:
    tenant = load(cgroup)
    with record(store, "--quiet") as recording:
        wait_for_more(recording, 0)
        children = Path(f"/proc/{recording.process.pid}/task/{recording.process.pid}/children")
        helper = int(children.read_text().split()[0])  # Started before the child that demangles.
        os.kill(helper, signal.SIGKILL)
        assert recording.process.wait(30) == 1
        recording.stopped = True
    tenant.kill()
    tenant.communicate()
    assert "the helper died; what was recorded is kept" in recording.errors.read_text()
    assert rows(recording) > 0


def mounted(image: Path, place: Path, *, new: bool = False) -> Path:
    """A file system in a file, mounted through a loop device."""
    place.mkdir()
    if new:
        image.touch()
        os.truncate(image, 64 << 20)
        subprocess.run(["mkfs.ext4", "-q", image], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    return place


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk_is_said_and_recording_goes_on_when_there_is_room(
    cgroup: Cgroup, disk: Path
) -> None:
    tenant = load(cgroup)
    with record(disk, "--quiet") as recording:
        before = wait_for_more(recording, 0)
        ballast = disk / ".ballast"
        with ballast.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
            while True:  # The recorder takes room meanwhile, so: until there is none.
                stream.write(b"x" * 4096)
        said(recording, "the disk is full; free some space")
        assert rows(recording) >= before
        assert recording.process.poll() is None
        ballast.unlink()
        said(recording, "rows are written again")
        wait_for_more(recording, rows(recording))
        tenant.kill()
        tenant.communicate()
    (losses,) = recording.sql(
        "select sum(seen) as seen, sum(stored) as stored, sum(lost) as lost, sum(shed) as shed, "
        "sum(queued) as queued from losses where family = 'cuda'"
    )
    assert losses["seen"] == losses["stored"] + losses["lost"] + losses["shed"]
    assert losses["queued"] == 0
    assert losses["stored"] == rows(recording)


def test_a_disk_that_turns_read_only_is_said_and_what_was_sealed_is_read(
    cgroup: Cgroup, tmp_path: Path
) -> None:
    place = mounted(tmp_path / "image", tmp_path / "mounted", new=True)
    tenant = load(cgroup)
    try:
        with record(place, "--quiet") as recording:
            before = wait_for_more(recording, 0)
            # What the kernel does to a file system in which it finds a fault.
            subprocess.run(["mount", "-o", "remount,abort", place], check=True)
            said(recording, "the file system is read-only")
            assert recording.process.poll() is None
            tenant.kill()
            tenant.communicate()
            recording.process.send_signal(signal.SIGINT)
            assert recording.process.wait(60) == 1
            recording.stopped = True
        assert rows(recording) >= before
    finally:
        subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.parametrize("how", ["moved", "removed"])
def test_a_store_that_is_taken_away_ends_the_recording_with_a_word(
    cgroup: Cgroup, store: Path, how: str
) -> None:
    tenant = load(cgroup)
    with record(store, "--quiet") as recording:
        wait_for_more(recording, 0)
        if how == "moved":
            store.rename(store.with_name("elsewhere"))
        else:
            subprocess.run(["rm", "-rf", store], check=False)  # It is written to meanwhile.
            subprocess.run(["rm", "-rf", store], check=False)
        assert recording.process.wait(30) == 1
        recording.stopped = True
    tenant.kill()
    tenant.communicate()
    said = recording.errors.read_text()
    assert f"{store} is gone; recording stops" in said
    assert "Traceback" not in said


def test_ctrl_c_is_acknowledged_and_a_second_one_ends_at_once(cgroup: Cgroup, store: Path) -> None:
    tenant = load(cgroup)
    with record(store, "--quiet") as recording:
        before = wait_for_more(recording, 0)
        recording.process.send_signal(signal.SIGINT)
        said(recording, "stopping: sealing what was recorded")
        recording.process.send_signal(signal.SIGINT)
        # If the seal was faster, there was nothing left to end.
        assert recording.process.wait(30) in (-signal.SIGINT, 0)
        recording.stopped = True
    tenant.kill()
    tenant.communicate()
    assert "Traceback" not in recording.errors.read_text()
    assert rows(recording) >= before


def test_a_power_cut_leaves_what_was_sealed(cgroup: Cgroup, tmp_path: Path) -> None:
    """The disk's image as it was at one moment, mounted again, is what a power cut leaves."""
    image, cut = tmp_path / "image", tmp_path / "cut"
    place = mounted(image, tmp_path / "mounted", new=True)
    tenant = load(cgroup)
    try:
        with record(place / "store", "--quiet") as recording:
            visible = wait_for_more(recording, 500)
            # What a reader has seen was synced before: the image has it, whatever else it lacks.
            subprocess.run(["cp", "--sparse=always", image, cut], check=True)
            tenant.kill()
            tenant.communicate()
    finally:
        subprocess.run(["umount", "-l", place], check=True)
    after = mounted(cut, tmp_path / "after")
    try:
        left = Recording(after / "store", recording.process, recording.errors, stopped=True)
        assert rows(left) >= visible
        with record(after / "store", "--quiet"):
            pass
        assert rows(left) >= visible
    finally:
        subprocess.run(["umount", "-l", after], check=True)
