"""Which GPUs a process has open: by its files, and by what the driver lists."""

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cotenant.agent.process import Gone, Process, check, environment
from cotenant.agent.protocol.reports import DevicesFound

_NVIDIA_MAJOR: Final = 195
_LAST_GPU: Final = 247  # Beyond are the control devices.
_FDS_MAX: Final = 4096
_CAPABILITY: Final = re.compile(r"/nvidia-caps/nvidia-cap(\d{1,9})$")
_UUID: Final = re.compile(r"GPU UUID:\s+(\S+)")
_MINOR: Final = re.compile(r"Device Minor:\s+(\d+)")
_INFO_MAX: Final = 256
_INFO: Final = re.compile(r"^(\w+):\s+(\w+)$", re.MULTILINE)
_NO_INSTANCE: Final = frozenset({"config", "monitor"})


def look_at_files(process: Process) -> DevicesFound:
    """Which GPUs and MIG instances a process has open, and whether it speaks to MPS."""
    gpus: set[int] = set()
    capabilities: set[int] = set()
    mps = False
    driver = Driver()
    listed = driver.lists()
    base = f"/proc/{process.pid}/fd"
    try:
        fds = os.listdir(base)
    except OSError:
        return not_looked_at(process)
    for fd in fds[:_FDS_MAX]:
        try:
            # Without a driver there is nothing to open, and nobody to be mistaken for.
            target, device = _look_at(process.pid, fd, only_open=listed)
        except OSError:
            continue
        if "nvidia-mps" in target:
            mps = True
        if device is None:
            continue
        if os.major(device) == _NVIDIA_MAJOR and os.minor(device) <= _LAST_GPU:
            gpus.add(os.minor(device))
        if found := _CAPABILITY.search(target):
            capabilities.add(int(found[1]))
    mps = mps or _speaks_to_mps(process.pid)
    try:
        check(process)
    except Gone:
        return not_looked_at(process)
    files, instances = driver.gpus(gpus), driver.instances(capabilities)
    looked = bool(gpus) or len(fds) <= _FDS_MAX
    return DevicesFound(process, tuple(files), tuple(instances), mps, listed, looked)


def not_looked_at(process: Process) -> DevicesFound:
    """Nobody knows what it has open."""
    return DevicesFound(process, (), (), mps=False, listed=Driver().lists(), looked=False)


def _look_at(pid: int, fd: str, *, only_open: bool) -> tuple[str, int | None]:
    """The path of a descriptor's file, and the number of its device, if it is one.

    What we look at is held: a process may put another file in its place at any time.
    """
    ours = os.open(f"/proc/{pid}/fd/{fd}", os.O_PATH | os.O_CLOEXEC)
    try:
        target, status = os.readlink(f"/proc/self/fd/{ours}"), os.fstat(ours)
        if not stat.S_ISCHR(status.st_mode) or (only_open and not _has_open(pid, fd, ours)):
            return target, None
        return target, status.st_rdev
    finally:
        os.close(ours)


def _has_open(pid: int, fd: str, ours: int) -> bool:
    """Whether a descriptor has the device open that we hold, and not merely its path.

    A file system that has no devices may say of any file that it is one.
    """
    if os.fstatvfs(ours).f_flag & os.ST_NODEV:
        return False
    theirs, held = _info(pid, fd), _info("self", ours)
    same = all(theirs.get(key) == held.get(key) for key in ("mnt_id", "ino"))
    return same and "flags" in theirs and not int(theirs["flags"], 8) & os.O_PATH


def _info(pid: int | str, fd: int | str) -> dict[str, str]:
    """What the kernel tells of an open file at once: flags, mount, and since v5.14 its inode."""
    # Of an inotify or an epoll there are thousands of lines.
    with Path(f"/proc/{pid}/fdinfo/{fd}").open() as file:
        return dict(_INFO.findall(file.read(_INFO_MAX)))


class Driver:
    """What the GPU driver lists below /proc."""

    def __init__(self, place: Path = Path("/proc/driver")) -> None:
        self._place = place

    def lists(self) -> bool:
        """Whether it lists the GPUs of this host."""
        return any(self._place.glob("nvidia/gpus/*/information"))

    def gpus(self, minors: Iterable[int]) -> list[str]:
        """GPUs by the numbers of their device files: the UUID, else the file's name."""
        uuids = {}
        for information in self._place.glob("nvidia/gpus/*/information"):
            try:
                text = information.read_text()
            except OSError:
                continue
            uuid, minor = _UUID.search(text), _MINOR.search(text)
            # Question marks, until somebody has opened the device.
            if uuid and minor and "?" not in uuid[1]:
                uuids[int(minor[1])] = uuid[1]
        return [uuids.get(minor, f"/dev/nvidia{minor}") for minor in sorted(minors)]

    def instances(self, capabilities: Iterable[int]) -> list[str]:
        """MIG instances by the numbers of the capability files that are open.

        Who uses a compute instance opens the file of the GPU instance around it too.
        """
        listed = self._capabilities()
        names = {listed.get(number, f"cap{number}") for number in capabilities}
        mine = {name for name in names if name not in _NO_INSTANCE}
        inner = {n for n in mine if not any(other.startswith(f"{n}/") for other in mine)}
        return [f"MIG-{name}" for name in sorted(inner)]

    def _capabilities(self) -> dict[int, str]:
        """``gpu0/gi3/ci0`` and the like, by number."""
        try:
            text = (self._place / "nvidia-caps/mig-minors").read_text()
        except OSError:
            return {}
        pairs = (line.rpartition(" ") for line in text.splitlines())
        return {
            int(number): name.removesuffix("/access")
            for name, _, number in pairs
            if number.isdecimal()
        }


def _speaks_to_mps(pid: int) -> bool:
    """Whether the process was told where the MPS pipe is."""
    try:
        entries = environment(pid)
    except OSError:
        return False
    return any(entry.startswith(b"CUDA_MPS_PIPE_DIRECTORY=") for entry in entries)
