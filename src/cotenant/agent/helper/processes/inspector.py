"""Questions about processes that only the helper may look into."""

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from operator import attrgetter
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from cotenant.agent.channel import Closed
from cotenant.agent.helper.fair_queue import PassedOver, tenant_of
from cotenant.agent.helper.files.elf_files import ElfFiles
from cotenant.agent.helper.processes.answers import Answers
from cotenant.agent.helper.processes.devices import look_at_files, not_looked_at
from cotenant.agent.helper.processes.symbols import Symbols, unknown_name
from cotenant.agent.helper.workers import Workers
from cotenant.agent.process import Nameless, Process
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

_TEXTS_MAX: Final = 1 << 19  # That wait, of one tenant: each rank of a job may bring 30,000.
_TEXTS_AT_ONCE: Final = 4096
_TENANTS_MAX: Final = 64  # Whose files are remembered.

Unread = npt.NDArray[np.void]  # As ``struct unread``.
_Q = TypeVar("_Q")
_A = TypeVar("_A")
_process_of: Final = attrgetter("process")


@dataclass(frozen=True, slots=True)
class _NamelessKernels:
    """Kernels of one process that are to be named."""

    process: Process
    kernels: tuple[Nameless, ...]


@dataclass(frozen=True, slots=True)
class _OpenFiles:
    """A process whose devices are to be told."""

    process: Process


_Item = _NamelessKernels | _OpenFiles | Process  # The last for its texts.


class Inspector:
    """Answers what the recorder asks about processes, each tenant's in a thread of its own."""

    def __init__(
        self,
        tell: Callable[[Report], None],
        passed_over: PassedOver,
        reported: Container[Process],
        files: ElfFiles,
    ) -> None:
        self._tell = tell
        self._passed_over = passed_over
        self._reported = reported  # Of all others it tells nothing.
        self._files = files
        self._symbols: OrderedDict[str, Symbols] = OrderedDict()
        self._workers: Workers[_Item] = Workers("inspector", self._handle)
        self._answers = Answers(lambda number: tell(Inspected(number)))
        # Texts that wait, by process, and how many of each tenant.
        self._texts: dict[Process, deque[Unread]] = {}
        self._waiting: Counter[str] = Counter()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Answer in the background."""
        self._workers.start()

    def tend(self) -> None:
        """Let nobody wait for another's process that does not answer."""
        self._workers.tend()

    def ask(self, question: Inspect) -> None:
        """A question; its answer ends with the same number."""
        parts: list[_NamelessKernels | _OpenFiles] = [_OpenFiles(p) for p in question.processes]
        by_process = groupby(sorted(question.kernels, key=_process_of), _process_of)
        parts += [_NamelessKernels(process, tuple(kernels)) for process, kernels in by_process]
        whose = cache(tenant_of)
        for part in parts:
            tenant = whose(part.process.pid)
            self._answers.begin(tenant)
            if not self._workers.put(tenant, part):
                self._passed_over.add("inspections", tenant)
                self._answers.end(tenant)
        if question.number:
            self._answers.wanted(question.number)

    def ask_texts(self, tenant: str, process: Process, unread: Unread) -> None:
        """What kernels are called by texts that could not be read; the answer is nobody's."""
        with self._lock:
            room = _TEXTS_MAX - self._waiting[tenant]
            mine = unread[: max(room, 0)]
            if len(mine) and process not in self._texts and not self._workers.put(tenant, process):
                mine = mine[:0]
            if len(mine) < len(unread):
                self._passed_over.add("names", tenant, len(unread) - len(mine))
            if len(mine):
                self._texts.setdefault(process, deque()).append(mine)
                self._waiting[tenant] += len(mine)

    def _handle(self, tenant: str, item: _Item) -> None:
        symbols = self._symbols_of(tenant)
        symbols.next_question()
        if isinstance(item, Process):
            self._tell_texts(tenant, symbols, item)
            return
        try:
            if isinstance(item, _OpenFiles):
                for devices in self._each(self._devices, (item.process,)):
                    self._tell(devices)
            else:
                look = partial(self._kernel, symbols)
                for part in slices(self._each(look, item.kernels)):
                    self._tell(KernelsFound(item.process, part))
        finally:
            self._answers.end(tenant)

    def _symbols_of(self, tenant: str) -> Symbols:
        """What is known of a tenant's processes; no other thread uses it."""
        with self._lock:
            mine = self._symbols.pop(tenant, None) or Symbols(tenant, self._files)
            self._symbols[tenant] = mine
            while len(self._symbols) > _TENANTS_MAX:
                self._symbols.popitem(last=False)
        return mine

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
            elif not self._workers.put(tenant, process):
                left = sum(map(len, self._texts.pop(process)))
                self._passed_over.add("names", tenant, left)
                done += left
            self._waiting[tenant] -= done
            if not self._waiting[tenant]:
                del self._waiting[tenant]
        return texts

    def _tell_texts(self, tenant: str, symbols: Symbols, process: Process) -> None:
        unread = self._take_texts(tenant, process)
        texts = symbols.texts(process, unread["address"].tolist())
        found = zip(unread["handle"].tolist(), texts, strict=True)
        named = (KernelText(handle, text[:NAME_MAX]) for handle, text in found if text)
        try:
            for part in slices(named):
                self._tell(TextsRead(process, tenant, part))
        except Closed:
            raise
        except Exception as error:  # noqa: BLE001 - a tenant may bring about any
            self._tell(Trouble.by("inspector", error))

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
            return not_looked_at(process)
        return look_at_files(process)

    def _kernel(self, symbols: Symbols, nameless: Nameless) -> KernelFound:
        process, handle, stub = nameless
        if process not in self._reported:
            return KernelFound(handle, stub, unknown_name(nameless), known=False)
        name = self._waiting_text(symbols, process, stub)
        name = name or self._waiting_text(symbols, process, handle)
        known = name is not None
        if name is None:
            name, known = symbols.kernel(nameless)
        return KernelFound(handle, stub, name[:NAME_MAX], known)

    def _waiting_text(self, symbols: Symbols, process: Process, handle: int) -> str | None:
        """What a handle is called by a text that waits for its turn."""
        with self._lock:
            parts = list(self._texts.get(process, ())) if handle else []
        for part in reversed(parts):
            for address in part["address"][part["handle"] == handle][-1:].tolist():
                return next(iter(symbols.texts(process, [address])))
        return None
