"""Which GPU a process uses, as far as it can be told without asking the driver.

A thread has a context, a context is on a device of its process's own numbering, and the process
itself asks for that device's UUID. Where it never does, the device files that it has open tell.
A UUID is the process's own word: where the driver lists the host's GPUs, it must have it open.
"""

import uuid
from collections import Counter
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

from cotenant.agent.process import Departed, Process
from cotenant.agent.protocol.reports import DevicesFound
from cotenant.agent.recorder.processes.shares import Shares
from cotenant.probes.tables.driver import GREEN

_CONTEXTS_MAX: Final = 4096  # Of one process,
_MOST: Final = 1 << 17  # and of all.
_PROCESSES_MAX: Final = 1 << 16
_DEVICES_MAX: Final = 64  # Of one process: more than a host has.


@dataclass(slots=True)
class _ProcessDevices:
    """One process's devices."""

    tenant: str
    cgroup: tuple[int, int]
    contexts: dict[int, int] = field(default_factory=dict)
    devices: dict[int, int] = field(default_factory=dict)  # How many contexts each has.
    uuids: dict[int, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()
    mps: bool = False
    asked: bool = False

    def put(self, context: int, device: int) -> None:
        """The context is on this device, as far as there is room for one more."""
        before = self.contexts.get(context)
        if before == device:
            return
        if before is not None:
            self._take_off(context, before)
        if device in self.devices or len(self.devices) < _DEVICES_MAX:
            self.contexts[context] = device
            self.devices[device] = self.devices.get(device, 0) + 1

    def _take_off(self, context: int, device: int) -> None:
        del self.contexts[context]
        self.devices[device] -= 1
        if not self.devices[device]:
            del self.devices[device]

    def gpu(self, device: int | None, *, listed: bool = False) -> str | None:
        """UUID of a device; else the only device file that the process has open.

        Where the driver has ``listed`` the host's GPUs, it must be one that the process has open.
        """
        if device is not None and device in self.uuids:
            told = f"{'MIG' if self.instances else 'GPU'}-{self.uuids[device]}"
            if not listed or self._can_use(told):
                return told
        if len(self.instances) == 1:
            return self.instances[0]
        return self.files[0] if len(self.files) == 1 else None

    def _can_use(self, told: str) -> bool:
        """Whether a UUID that the process told may be that of one of its GPUs.

        The driver tells which devices are open, but not which instances of one, and not the UUID
        of a device that nobody has opened.
        """
        if self.instances:
            return bool(self.files)
        return told in self.files or any(file.startswith("/dev/") for file in self.files)


def _cgroup(fact: Any) -> tuple[int, int]:
    return int(fact["cgroup_id"]), int(fact["cgroup_v1_id"])


class Devices:
    """Every followed process's contexts and devices."""

    def __init__(
        self,
        outermost: Callable[[int, int], str] = lambda *_: "",
        most: int = _MOST,
        most_processes: int = _PROCESSES_MAX,
    ) -> None:
        """``outermost`` says which tenant has these cgroups."""
        self._outermost = outermost
        self._shares = Shares(most)
        self._process_shares = Shares(most_processes)
        self._processes: dict[Process, _ProcessDevices] = {}
        self._departed = Departed()
        self._listed = False  # Whether the driver lists the host's GPUs, as far as is known.
        # Contexts and processes that there was no room for, by tenant.
        self.refused: Counter[str] = Counter()
        self._to_look: dict[Process, None] = {}

    def _at(self, process: Process, cgroup: tuple[int, int]) -> _ProcessDevices | None:
        """What is known of a process; None if its tenant may have no more of them.

        Nobody tells the end of a process that the kernel had no room to follow.
        """
        if known := self._processes.get(process):
            return known
        tenant = self._outermost(*cgroup)
        if not self._process_shares.make_room(tenant, process, self._departed, self._drop):
            self.refused[tenant] += 1
            return None
        self._process_shares.count(tenant, 1)
        known = self._processes[process] = _ProcessDevices(tenant, cgroup)
        return known

    def context(self, fact: Any, process: Process) -> None:
        """A context is on this device of its process."""
        if (known := self._at(process, cgroup := _cgroup(fact))) is None:
            return
        known.cgroup = cgroup
        known.asked = True
        device: int | None = int(fact["other"]) & 0xFFFFFFFF
        if int(fact["function"]) == GREEN:
            device = known.contexts.get(int(fact["other"]))
        if device is not None:
            self._put(process, known, int(fact["address"]), device)
        self._to_look[process] = None

    def _put(self, process: Process, known: _ProcessDevices, context: int, device: int) -> None:
        before = len(known.contexts)
        if context in known.contexts or self._make_room(process, known):
            known.put(context, device)
            self._shares.count(known.tenant, len(known.contexts) - before)
        else:
            self.refused[known.tenant] += 1

    def _make_room(self, process: Process, known: _ProcessDevices) -> bool:
        """Whether there is room for one more; drops ended processes of the tenant to make it."""
        if len(known.contexts) >= _CONTEXTS_MAX:
            return False
        return self._shares.make_room(known.tenant, process, self._departed, self._drop)

    def _drop(self, process: Process) -> None:
        known = self._processes.pop(process, None)
        if known is not None:
            self._shares.count(known.tenant, -len(known.contexts))
            self._process_shares.count(known.tenant, -1)

    def device(self, fact: Any, process: Process, text: bytes) -> None:
        """The process has asked for a device's UUID."""
        if (known := self._at(process, _cgroup(fact))) is None:
            return
        device = int(fact["handle"]) & 0xFFFFFFFF
        if len(text) == 16 and (device in known.uuids or len(known.uuids) < _DEVICES_MAX):
            known.uuids[device] = str(uuid.UUID(bytes=text))

    def works(self, process: Process, cgroup: tuple[int, int]) -> None:
        """The process uses a GPU, perhaps in a context that it made before anybody looked."""
        if process in self._departed:
            return
        known = self._at(process, cgroup)
        if known is not None and not known.asked:
            known.asked = True
            known.cgroup = cgroup
            self._to_look[process] = None

    def take_questions(self) -> list[Process]:
        """Processes that began to use a GPU: their open files tell which one."""
        wanted, self._to_look = self._to_look, {}
        return list(wanted)

    def found(self, report: DevicesFound) -> None:
        """What the helper found open in a process."""
        self._listed = self._listed or report.listed
        known = self._processes.get(report.process)
        if known is not None and report.looked:
            known.files = report.files
            known.instances = report.instances
            known.mps = report.mps

    def gpu(self, process: Process, context: int | None) -> str | None:
        """UUID of the GPU of a context; else the only device file that the process has open."""
        known = self._processes.get(process)
        if known is None:
            return None
        device = known.contexts.get(context) if context else None
        return known.gpu(device, listed=self._listed)

    def sharing(self) -> dict[tuple[int, int], str]:
        """How each tenant shares its GPUs, where it can be told; by the kernel's cgroup ids."""
        users: dict[str, set[tuple[int, int]]] = {}
        live = [k for p, k in self._processes.items() if p not in self._departed]
        for known in live:
            for device in known.devices or (None,):
                if gpu := known.gpu(device, listed=self._listed):
                    users.setdefault(gpu, set()).add(known.cgroup)
        modes = {}
        for tenants in users.values():
            for tenant in tenants:
                modes[tenant] = "timeslice" if len(tenants) > 1 else "exclusive"
        for known in live:
            if known.mps:
                modes[known.cgroup] = "mps"
            if known.instances:
                modes[known.cgroup] = "mig"
        return modes

    def cgroup(self, process: Process) -> tuple[int, int]:
        """Where a process works, by the kernel's ids."""
        known = self._processes.get(process)
        return known.cgroup if known is not None else (0, 0)

    def gone(self, process: Process, tenant: str = "") -> None:
        """The process ended; its last rows may still be on their way."""
        known = self._processes.get(process)
        # Accounts and ended processes go by the same name.
        tenant = known.tenant or tenant if known is not None else tenant
        if oldest := self._departed.add(process, tenant):
            self._drop(oldest)

    def sweep(self, followed: AbstractSet[Process]) -> None:
        """Let go of processes that ended, of all that the kernel has not ``followed`` since."""
        self._departed.sweep(self._processes, followed, self.gone, self._drop)
