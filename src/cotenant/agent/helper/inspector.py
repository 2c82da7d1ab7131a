"""Questions about a process that only the helper may look into, answered in a thread of its own."""

import contextlib
import os
import re
import stat
import threading
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from cotenant.agent.channel import Closed
from cotenant.agent.helper.discovery.fair_queue import OURS, FairQueue, PassedOver
from cotenant.agent.helper.symbols import Symbols, unknown_name
from cotenant.agent.process import Gone, Nameless, Process, check, environment
from cotenant.agent.protocol.codec import slices
from cotenant.agent.protocol.reports import (
    NAME_MAX,
    DevicesFound,
    Inspected,
    KernelFound,
    KernelsFound,
    KernelText,
    Report,
    TextsRead,
    Trouble,
)
from cotenant.agent.protocol.requests import Inspect

_NVIDIA_MAJOR: Final = 195
_LAST_GPU: Final = 247  # Beyond are the control devices.
_FDS_MAX: Final = 4096
_TEXTS_MAX: Final = 1 << 19  # That wait, of one tenant: each rank of a job may bring 30,000.
_TEXTS_AT_ONCE: Final = 4096
_CAPABILITY: Final = re.compile(r"/nvidia-caps/nvidia-cap(\d{1,9})$")
_UUID: Final = re.compile(r"GPU UUID:\s+(\S+)")
_MINOR: Final = re.compile(r"Device Minor:\s+(\d+)")
_NO_INSTANCE: Final = frozenset({"config", "monitor"})

Unread = npt.NDArray[np.void]  # As ``struct unread``.
_Q = TypeVar("_Q")
_A = TypeVar("_A")
_process_of: Final = attrgetter("process")


class Inspector:
    """Answers what the recorder asks about processes."""

    def __init__(
        self,
        tell: Callable[[Report], None],
        passed_over: PassedOver,
        reported: Container[Process],
    ) -> None:
        self._tell = tell
        self._passed_over = passed_over
        self._reported = reported  # Of all others it tells nothing.
        self._symbols = Symbols()
        self._queue: FairQueue[Inspect | Process] = FairQueue()
        # Texts that wait, by process, and how many of each tenant.
        self._texts: dict[Process, deque[Unread]] = {}
        self._waiting: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="inspector", daemon=True)

    def start(self) -> None:
        """Answer in the background."""
        self._thread.start()

    def ask(self, question: Inspect) -> None:
        """A question; its answer ends with the same number."""
        self._queue.put(OURS, question)

    def ask_texts(self, tenant: str, process: Process, unread: Unread) -> None:
        """What kernels are called by texts that could not be read; the answer is nobody's."""
        with self._lock:
            room = _TEXTS_MAX - self._waiting[tenant]
            mine = unread[: max(room, 0)]
            if len(mine) and process not in self._texts and not self._queue.put(tenant, process):
                mine = mine[:0]
            if len(mine) < len(unread):
                self._passed_over.add("names", tenant, len(unread) - len(mine))
            if len(mine):
                self._texts.setdefault(process, deque()).append(mine)
                self._waiting[tenant] += len(mine)

    def _run(self) -> None:
        with contextlib.suppress(Closed):
            while True:
                tenant, item = self._queue.get()
                if isinstance(item, Process):
                    self._tell_texts(item, self._take_texts(tenant, item))
                else:
                    self._answer(item)

    def _take_texts(self, tenant: str, process: Process) -> Unread:
        """Some of a process's texts; the others at its tenant's next turn."""
        with self._lock:
            waiting = self._texts[process]
            first = waiting.popleft()
            texts, rest = first[:_TEXTS_AT_ONCE], first[_TEXTS_AT_ONCE:]
            if len(rest):
                waiting.appendleft(rest)
            done = len(texts)
            if not waiting:
                del self._texts[process]
            elif not self._queue.put(tenant, process):
                left = sum(map(len, self._texts.pop(process)))
                self._passed_over.add("names", tenant, left)
                done += left
            self._waiting[tenant] -= done
            if not self._waiting[tenant]:
                del self._waiting[tenant]
        return texts

    def _tell_texts(self, process: Process, unread: Unread) -> None:
        self._symbols.next_question()
        try:
            texts = self._symbols.texts(process, unread["address"].tolist())
        except Exception as error:  # noqa: BLE001 - a tenant may bring about any
            self._tell(Trouble.by("inspector", error))
            return
        found = zip(unread["handle"].tolist(), texts, strict=True)
        named = (KernelText(handle, text[:NAME_MAX]) for handle, text in found if text)
        for part in slices(named):
            self._tell(TextsRead(process, part))

    def _answer(self, question: Inspect) -> None:
        """Many small messages; the one with the question's number comes last."""
        self._symbols.next_question()
        for devices in self._each(self._devices, question.processes):
            self._tell(devices)
        by_process = sorted(question.kernels, key=_process_of)
        for process, kernels in groupby(by_process, _process_of):
            for part in slices(self._each(self._kernel, kernels)):
                self._tell(KernelsFound(process, part))
        self._tell(Inspected(question.number))

    def _each(self, look: Callable[[_Q], _A], questions: Iterable[_Q]) -> Iterator[_A]:
        """Answers; what cannot be answered for one process is no reason to leave the others."""
        for question in questions:
            try:
                answer = look(question)
            except Exception as error:  # noqa: BLE001 - a tenant may bring about any
                self._tell(Trouble.by("inspector", error))
            else:
                yield answer

    def _devices(self, process: Process) -> DevicesFound:
        if process not in self._reported:
            return DevicesFound(process, (), (), mps=False)
        return look_at_files(process)

    def _kernel(self, nameless: Nameless) -> KernelFound:
        process, handle, stub = nameless
        if process not in self._reported:
            return KernelFound(handle, stub, unknown_name(nameless), known=False)
        name = self._waiting_text(process, stub) or self._waiting_text(process, handle)
        known = name is not None
        if name is None:
            name, known = self._symbols.kernel(nameless)
        return KernelFound(handle, stub, name[:NAME_MAX], known)

    def _waiting_text(self, process: Process, handle: int) -> str | None:
        """What a handle is called by a text that waits for its turn."""
        with self._lock:
            parts = list(self._texts.get(process, ())) if handle else []
        for part in reversed(parts):
            for address in part["address"][part["handle"] == handle][-1:].tolist():
                return self._symbols.texts(process, [address])[0]
        return None


def look_at_files(process: Process) -> DevicesFound:
    """Which GPUs and MIG instances a process has open, and whether it speaks to MPS."""
    gpus: set[int] = set()
    capabilities: set[int] = set()
    mps = False
    base = f"/proc/{process.pid}/fd"
    try:
        fds = os.listdir(base)[:_FDS_MAX]
    except OSError:
        fds = []
    for fd in fds:
        try:
            target, status = os.readlink(f"{base}/{fd}"), os.stat(f"{base}/{fd}")
        except OSError:
            continue
        if "nvidia-mps" in target:
            mps = True
        if not stat.S_ISCHR(status.st_mode):
            continue
        if os.major(status.st_rdev) == _NVIDIA_MAJOR and os.minor(status.st_rdev) <= _LAST_GPU:
            gpus.add(os.minor(status.st_rdev))
        if found := _CAPABILITY.search(target):
            capabilities.add(int(found[1]))
    mps = mps or _speaks_to_mps(process.pid)
    try:
        check(process)
    except Gone:
        gpus, capabilities, mps = set(), set(), False
    driver = Driver()
    files, instances = driver.gpus(gpus), driver.instances(capabilities)
    return DevicesFound(process, tuple(files), tuple(instances), mps)


class Driver:
    """What the GPU driver lists below /proc."""

    def __init__(self, place: Path = Path("/proc/driver")) -> None:
        self._place = place

    def gpus(self, minors: Iterable[int]) -> list[str]:
        """GPUs by the numbers of their device files: the UUID, else the file's name."""
        uuids = {}
        for information in self._place.glob("nvidia/gpus/*/information"):
            try:
                text = information.read_text()
            except OSError:
                continue
            uuid, minor = _UUID.search(text), _MINOR.search(text)
            if uuid and minor:
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
