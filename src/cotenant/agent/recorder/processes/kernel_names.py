"""What each process calls its kernels, learned from the calls that look them up.

A handle is a number in one process. It may be an alias of another one, and after an unload it may
be reused for another kernel; so a handle has eras, each from the time its name was learned.

Tenants choose the names and how many there are, so memory is bounded, for all processes and for
each; and a tenant may have as much as is still free, so that it leaves as much to others. Names of
its ended processes are dropped first; then new names are refused, and counted.
"""

import bisect
from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from cotenant.agent.process import Departed, Nameless, Process
from cotenant.agent.recorder.processes.demangle import Demangler
from cotenant.agent.recorder.processes.interned import Interned
from cotenant.agent.recorder.processes.shares import Shares

_BYTES_MAX: Final = 384 << 20
_PROCESS_BYTES_MAX: Final = 64 << 20
_ENTRY_BYTES: Final = 512  # Memory of an era or an alias besides its text, about.
_UNKNOWN_MAX: Final = 262_144  # Of all tenants.
_ERAS_MAX: Final = 4096  # Of one handle.

Era = tuple[int, str]


@dataclass(slots=True)
class _ProcessKernels:
    """One process's handles."""

    eras: dict[int, list[Era]] = field(default_factory=dict)
    aliases: dict[int, int] = field(default_factory=dict)
    modules: dict[int, set[int]] = field(default_factory=dict)
    module_of: dict[int, int] = field(default_factory=dict)  # Valid handles.
    unknown: dict[Nameless, str] = field(default_factory=dict)
    bytes: int = 0
    entries: int = 0
    tenant: str = ""

    def put(self, handle: int, module: int) -> None:
        """The handle now belongs to this module, and to no other; 0 where it is not known."""
        self.take_out(handle)
        self.module_of[handle] = module
        self.modules.setdefault(module, set()).add(handle)

    def take_out(self, handle: int) -> None:
        """The handle is not valid any more."""
        module = self.module_of.pop(handle, None)
        if module is not None:
            self.modules[module].discard(handle)
            if not self.modules[module]:
                del self.modules[module]


class KernelNames:
    """Every followed process's kernels."""

    def __init__(
        self,
        demangler: Demangler | None = None,
        most_bytes: int = _BYTES_MAX,
        most_unknown: int = _UNKNOWN_MAX,
    ) -> None:
        self._demangler = demangler or Demangler()
        self._most_bytes = most_bytes
        self._processes: dict[Process, _ProcessKernels] = {}
        self._interned = Interned()
        self._entries: Counter[str] = Counter()  # By tenant,
        self._entries_of_all = 0
        self._departed = Departed()
        self._unknowns = Shares(most_unknown)
        self.refused = 0  # Names that there was no room for.

    @property
    def bytes(self) -> int:
        """Memory that the names of all processes take, about."""
        return self._entries_of_all * _ENTRY_BYTES + self._interned.bytes

    def __contains__(self, process: object) -> bool:
        """Whether it is known whose a process is."""
        known = self._processes.get(process) if isinstance(process, Process) else None
        return known is not None and bool(known.tenant)

    def tenant(self, process: Process) -> str:
        """Whose a process is; empty if that is not known."""
        known = self._processes.get(process)
        return known.tenant if known is not None else ""

    def follow(self, process: Process, tenant: str) -> None:
        """The process is this tenant's."""
        known = self._processes.setdefault(process, _ProcessKernels())
        self._unknowns.count(known.tenant, -len(known.unknown))
        self._unknowns.count(tenant, len(known.unknown))
        self._entries[known.tenant] -= known.entries
        self._entries[tenant] += known.entries
        known.tenant = tenant

    def learn(
        self, process: Process, handle: int, name: str, when_ns: int, module: int = 0
    ) -> bool:
        """From this time on, the handle of this module has this name; false if refused."""
        self._add_era(process, handle, when_ns, name)
        known = self._processes.get(process)
        if known and module and handle in known.module_of:
            known.put(handle, module)
        return known is not None and handle in known.eras

    def _add_era(self, process: Process, handle: int, when_ns: int, text: str) -> None:
        known = self._processes.setdefault(process, _ProcessKernels())
        self._drop_alias(known, handle)
        eras = known.eras.get(handle, [])
        if not text:
            known.take_out(handle)
        if eras and eras[-1][1] == text:
            return
        if len(eras) >= _ERAS_MAX:
            self._release(known, eras.pop(0)[1])
        if not self._make_room(process, text):
            self.refused += 1
            # No name at all is better than the one of another kernel.
            self._drop_handle(known, handle)
            return
        bisect.insort(eras, (when_ns, self._interned.intern(text, known.tenant)))
        known.eras[handle] = eras
        if text and handle not in known.module_of:
            known.put(handle, 0)
        self._count(known, 1, _ENTRY_BYTES + len(text))

    def _count(self, known: _ProcessKernels, entries: int, size: int) -> None:
        known.bytes += size
        known.entries += entries
        self._entries[known.tenant] += entries
        self._entries_of_all += entries

    def _make_room(self, process: Process, text: str) -> bool:
        """Whether there is room for one more; drops ended processes of the tenant to make it."""
        known = self._processes[process]
        if known.bytes + _ENTRY_BYTES + len(text) > _PROCESS_BYTES_MAX:
            return False
        while self._over(known.tenant, _ENTRY_BYTES + self._interned.cost(text)):
            if not self._drop_ended(process, known.tenant):
                return False
        return True

    def _drop_ended(self, process: Process, tenant: str) -> bool:
        """Drop the tenant's process that ended first; false if there is no other than this."""
        oldest = self._departed.oldest(tenant)
        if oldest is not None:
            self._drop(oldest)
        return oldest not in (None, process)

    def _over(self, tenant: str, more: int) -> bool:
        """Whether a tenant would have more than is left."""
        mine = self._entries[tenant] * _ENTRY_BYTES + self._interned.bytes_of[tenant]
        return mine + more > self._most_bytes - self.bytes

    def _release(self, known: _ProcessKernels, text: str) -> None:
        self._interned.release(text)
        self._count(known, -1, -_ENTRY_BYTES - len(text))

    def _drop_handle(self, known: _ProcessKernels, handle: int) -> None:
        known.take_out(handle)
        for _, text in known.eras.pop(handle, ()):
            self._release(known, text)

    def _drop_alias(self, known: _ProcessKernels, handle: int) -> None:
        if known.aliases.pop(handle, None) is not None:
            self._count(known, -1, -_ENTRY_BYTES)

    def alias(self, process: Process, handle: int, other: int, when_ns: int) -> None:
        """This handle is an alias of another one."""
        known = self._processes.setdefault(process, _ProcessKernels())
        if handle == other:
            return
        eras = known.eras.get(other)
        if eras and eras[-1][1]:
            self._add_era(process, handle, when_ns, eras[-1][1])
            return
        self._drop_alias(known, handle)
        if not self._make_room(process, ""):
            self.refused += 1
            return
        known.aliases[handle] = other
        self._count(known, 1, _ENTRY_BYTES)

    def forget(self, process: Process, module: int, when_ns: int) -> None:
        """The module was unloaded: its handles are invalid until they are named again."""
        known = self._processes.get(process)
        for handle in list(known.modules.get(module, ())) if known and module else ():
            self._add_era(process, handle, when_ns, "")

    def eras(self, process: Process, handle: int, stub: int) -> list[Era]:
        """The kernel's names as the process wrote them, each with its start.

        By the launching caller's handle (``stub``) where the driver's own has none.
        """
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
        """The kernel's name now; never empty."""
        eras = self.eras(process, handle, stub)
        if eras and eras[-1][1]:
            return self.readable(process, eras[-1][1])
        return self.unknown(process, handle, stub)

    def readable(self, process: Process, name: str) -> str:
        """The form of a name that rows show."""
        return self._demangler.readable(name, process, self.tenant(process))

    @property
    def mangled(self) -> Counter[str]:
        """How often names stayed mangled for what it costs to demangle them, by tenant."""
        return self._demangler.mangled

    def unknown(self, process: Process, handle: int, stub: int) -> str:
        """A stand-in for a name that was never seen: the same for each launch."""
        known = self._processes.get(process)
        asked = known.unknown if known else None
        found = asked.get(Nameless(process, handle, stub)) if asked else None
        return found or f"unknown@?+{stub or handle:#x}"

    def asked(self, nameless: Nameless) -> bool:
        """Whether the helper has looked for this kernel's name already."""
        known = self._processes.get(nameless.process)
        return known is not None and nameless in known.unknown

    def call_unknown(self, nameless: Nameless, name: str) -> None:
        """The helper found no name; this is the stand-in."""
        known = self._processes.setdefault(nameless.process, _ProcessKernels())
        if nameless in known.unknown:
            return
        while self._unknowns.over(known.tenant):
            if not self._drop_ended(nameless.process, known.tenant):
                self.refused += 1
                return
        known.unknown[nameless] = name
        self._unknowns.count(known.tenant, 1)

    def exec(self, process: Process, when_ns: int) -> None:
        """The process runs another program: its handles are invalid from now on."""
        known = self._processes.get(process)
        if known is None:
            return
        for handle in list(known.aliases):
            self._drop_alias(known, handle)
        for handle in list(known.module_of):
            self._add_era(process, handle, when_ns, "")

    def gone(self, process: Process) -> None:
        """The process ended; its last rows may still be on their way."""
        self._demangler.gone(process)
        known = self._processes.get(process)
        if oldest := self._departed.add(process, known.tenant if known else ""):
            self._drop(oldest)

    def sweep(self, followed: AbstractSet[Process]) -> None:
        """Let go of processes that ended, of all that the kernel has not ``followed`` since."""
        self._departed.sweep(self._processes, followed, self.gone, self._drop)

    def _drop(self, process: Process) -> None:
        known = self._processes.pop(process, None)
        if known is not None:
            for handle in list(known.eras):
                self._drop_handle(known, handle)
            for handle in list(known.aliases):
                self._drop_alias(known, handle)
            if not self._entries[known.tenant]:
                del self._entries[known.tenant]
            self._unknowns.count(known.tenant, -len(known.unknown))
