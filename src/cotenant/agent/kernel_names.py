"""What each process calls its kernels, learned from the calls that look them up.

A handle is a number in one process. It may be an alias of another, and after an unload it may
come again for another kernel; so a handle has eras, each from the time its name was learned.
"""

import bisect
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cotenant.agent.demangle import demangle
from cotenant.agent.process import Departed, Process

_HANDLES_MAX: Final = 262_144  # Per process: a hostile one must not fill our memory.
_ERAS_MAX: Final = 4096

Era = tuple[int, str]


class Nameless(NamedTuple):
    """A kernel that was launched, and that nobody has named."""

    process: Process
    handle: int
    stub: int


@dataclass(slots=True)
class _Known:
    """One process's handles."""

    eras: dict[int, list[Era]] = field(default_factory=dict)
    aliases: dict[int, int] = field(default_factory=dict)
    modules: dict[int, list[int]] = field(default_factory=dict)


class KernelNames:
    """Every followed process's kernels."""

    def __init__(self) -> None:
        self._processes: dict[Process, _Known] = {}
        self._departed = Departed()
        self._unknown: dict[Nameless, str] = {}
        self.full = 0

    def learn(
        self, process: Process, handle: int, name: str, when_ns: int, module: int = 0
    ) -> None:
        """This handle, found in this module, is called so from now on."""
        known = self._processes.setdefault(process, _Known())
        if len(known.eras) >= _HANDLES_MAX and handle not in known.eras:
            self.full += 1
            return
        if module:
            known.modules.setdefault(module, []).append(handle)
        self._add_era(known, handle, when_ns, demangle(name))

    def _add_era(self, known: _Known, handle: int, when_ns: int, text: str) -> None:
        eras = known.eras.setdefault(handle, [])
        known.aliases.pop(handle, None)
        if (eras and eras[-1][1] == text) or len(eras) >= _ERAS_MAX:
            return
        bisect.insort(eras, (when_ns, text))

    def alias(self, process: Process, handle: int, other: int, when_ns: int) -> None:
        """This handle is another one for the same kernel."""
        known = self._processes.setdefault(process, _Known())
        if handle == other:
            return
        eras = known.eras.get(other)
        if eras and eras[-1][1]:
            self._add_era(known, handle, when_ns, eras[-1][1])
        elif len(known.aliases) < _HANDLES_MAX:
            known.aliases[handle] = other

    def forget(self, process: Process, module: int, when_ns: int) -> None:
        """The module was unloaded: its handles mean nothing until they are named again."""
        known = self._processes.get(process)
        for handle in known.modules.pop(module, ()) if known else ():
            self._add_era(known, handle, when_ns, "")  # type: ignore[arg-type]

    def eras(self, process: Process, handle: int, stub: int) -> list[Era]:
        """What the kernel was called, and since when; the caller's handle where ours has none."""
        known = self._processes.get(process)
        if known is None:
            return []
        for candidate in (handle, stub):
            if not candidate:
                continue
            for _ in range(8):
                eras = known.eras.get(candidate)
                if eras and (eras[-1][1] or candidate not in known.aliases):
                    return eras
                if candidate not in known.aliases:
                    break
                candidate = known.aliases[candidate]
        return []

    def name(self, process: Process, handle: int, stub: int) -> str:
        """What the kernel is called now; never nothing."""
        eras = self.eras(process, handle, stub)
        if eras and eras[-1][1]:
            return eras[-1][1]
        return self.unknown(process, handle, stub)

    def unknown(self, process: Process, handle: int, stub: int) -> str:
        """A name for a kernel whose name was never seen: the same each time it is launched."""
        found = self._unknown.get(Nameless(process, handle, stub))
        return found or f"unknown@?+{stub or handle:#x}"

    def asked(self, nameless: Nameless) -> bool:
        """Whether somebody has looked for this kernel's name already."""
        return nameless in self._unknown

    def call_unknown(self, nameless: Nameless, name: str) -> None:
        """Nobody knows its name; this is what it is to be called."""
        if len(self._unknown) < _HANDLES_MAX:
            self._unknown[nameless] = name

    def exec(self, process: Process, when_ns: int) -> None:
        """The process runs another program: from now on its handles mean nothing known."""
        known = self._processes.get(process)
        if known is None:
            return
        known.aliases.clear()
        known.modules.clear()
        for eras in known.eras.values():
            bisect.insort(eras, (when_ns, ""))

    def gone(self, process: Process) -> None:
        """The process ended; its last rows may still be on their way."""
        if oldest := self._departed.add(process):
            self._processes.pop(oldest, None)
            for nameless in [n for n in self._unknown if n.process == oldest]:
                del self._unknown[nameless]
