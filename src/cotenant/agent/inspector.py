"""Questions about a process that only the helper may look into, answered in a thread of its own."""

import contextlib
import os
import re
import stat
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from cotenant.agent.channel import Closed, Message, slices, trouble
from cotenant.agent.kernel_names import Nameless
from cotenant.agent.process import Gone, Process, check, environment
from cotenant.agent.symbols import Symbols
from cotenant.agent.turns import OURS, PassedOver, Turns

_NVIDIA_MAJOR: Final = 195
_LAST_GPU: Final = 247  # Beyond are the control devices.
_FDS_MAX: Final = 4096
_TEXT_MAX: Final = 16384
_TEXTS_MAX: Final = 65536  # That wait, of one tenant: a big library brings tens of thousands.
_TEXTS_AT_ONCE: Final = 512
_CAPABILITY: Final = re.compile(r"/nvidia-caps/nvidia-cap(\d{1,9})$")
_UUID: Final = re.compile(r"GPU UUID:\s+(\S+)")
_MINOR: Final = re.compile(r"Device Minor:\s+(\d+)")
_NO_INSTANCE: Final = frozenset({"config", "monitor"})


class Inspector:
    """Answers what the recorder asks about processes."""

    def __init__(self, tell: Callable[[dict[str, Any]], None], passed_over: PassedOver) -> None:
        self._tell = tell
        self._passed_over = passed_over
        self._symbols = Symbols()
        self._turns: Turns[Message | Process] = Turns()
        # Texts that wait, by process, and how many of each tenant.
        self._texts: dict[Process, tuple[str, deque[list[int]]]] = {}
        self._waiting: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="inspector", daemon=True)

    def start(self) -> None:
        """Answer in the background."""
        self._thread.start()

    def ask(self, message: Message) -> None:
        """A question; its answer comes as a message of the same number."""
        self._turns.put(OURS, message)

    def ask_text(self, tenant: str, process: Process, handle: int, address: int) -> None:
        """What a kernel is called by a text that could not be read; the answer is nobody's."""
        with self._lock:
            tenant, texts = self._texts.get(process, (tenant, deque()))
            full = self._waiting[tenant] >= _TEXTS_MAX
            if full or not (texts or self._turns.put(tenant, process)):
                self._passed_over.add("names", tenant)
                return
            texts.append([*process, handle, address])
            self._texts[process] = tenant, texts
            self._waiting[tenant] += 1

    def _run(self) -> None:
        with contextlib.suppress(Closed):
            while True:
                tenant, item = self._turns.get()
                if isinstance(item, Process):
                    item = _question(texts=self._take_texts(tenant, item))
                self._answer(item)

    def _take_texts(self, tenant: str, process: Process) -> list[list[int]]:
        """Some of a process's texts; the others at its tenant's next turn."""
        with self._lock:
            _, waiting = self._texts.pop(process)
            texts = [waiting.popleft() for _ in range(min(_TEXTS_AT_ONCE, len(waiting)))]
            done = len(texts)
            if waiting and self._turns.put(tenant, process):
                self._texts[process] = tenant, waiting
            elif waiting:
                self._passed_over.add("names", tenant, len(waiting))
                done += len(waiting)
            self._waiting[tenant] -= done
            if not self._waiting[tenant]:
                del self._waiting[tenant]
        return texts

    def _answer(self, message: Message) -> None:
        """Many small messages; the one with the question's number comes last."""
        self._symbols.next_question()
        for devices in self._each(_devices, message["devices"]):
            self._tell(devices)
        for kernels in slices(self._each(self._kernel, message["kernels"])):
            self._tell(_inspected(kernels=kernels))
        for texts in slices(self._each(self._text, message["texts"])):
            self._tell(_inspected(texts=texts))
        self._tell(_inspected(number=message["number"]))

    def _each(self, look: Callable[..., Any], questions: Iterable[list[int]]) -> Iterator[Any]:
        """Answers; what cannot be answered for one process is no reason to leave the others."""
        for question in questions:
            try:
                answer = look(*question)
            except Exception as error:  # noqa: BLE001 - a tenant may bring about any
                self._tell(trouble("inspector", error))
            else:
                yield answer

    def _kernel(self, pid: int, start_ns: int, handle: int, stub: int) -> list[Any]:
        name, known = self._symbols.kernel(Nameless(Process(pid, start_ns), handle, stub))
        return [pid, start_ns, handle, stub, name[:_TEXT_MAX], known]

    def _text(self, pid: int, start_ns: int, handle: int, address: int) -> list[Any]:
        text = self._symbols.text(Process(pid, start_ns), address)
        return [pid, start_ns, handle, text[:_TEXT_MAX] if text else None]


def _question(**about: list[Any]) -> Message:
    return {"number": 0, "devices": [], "kernels": [], "texts": [], **about}


def _inspected(number: int = 0, **found: list[Any]) -> Message:
    """A part of an answer; number 0 is nobody's."""
    return {"type": "inspected", "number": number, "kernels": [], "texts": [], **found}


def _devices(pid: int, start_ns: int) -> Message:
    return {"type": "devices", **look_at_files(Process(pid, start_ns))}


def look_at_files(process: Process) -> Message:
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
    return {
        "pid": process.pid,
        "start_ns": process.start_ns,
        "files": driver.gpus(gpus),
        "instances": driver.instances(capabilities),
        "mps": mps,
    }


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
