"""Which GPU a process uses, as far as it can be told without asking the driver.

A thread has a context, a context is on a device of its process's own numbering, and the process
itself asks for that device's UUID. Where it never does, the device files that it has open tell.
"""

import uuid
from dataclasses import dataclass, field
from typing import Any, Final

from cotenant.agent.process import Departed, Process
from cotenant.agent.protocol.reports import DevicesFound
from cotenant.probes.tables.driver import GREEN

_CONTEXTS_MAX: Final = 4096


@dataclass(slots=True)
class _ProcessDevices:
    """One process's devices."""

    contexts: dict[int, int] = field(default_factory=dict)
    uuids: dict[int, bytes] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    instances: tuple[str, ...] = ()
    mps: bool = False
    cgroup: tuple[int, int] = (0, 0)
    asked: bool = False


class Devices:
    """Every followed process's contexts and devices."""

    def __init__(self) -> None:
        self._processes: dict[Process, _ProcessDevices] = {}
        self._departed = Departed()
        self._to_look: dict[Process, None] = {}

    def context(self, fact: Any, process: Process) -> None:
        """A context is on this device of its process."""
        known = self._processes.setdefault(process, _ProcessDevices())
        known.cgroup = (int(fact["cgroup_id"]), int(fact["cgroup_v1_id"]))
        known.asked = True
        device: int | None = int(fact["other"]) & 0xFFFFFFFF
        if int(fact["function"]) == GREEN:
            device = known.contexts.get(int(fact["other"]))
        if len(known.contexts) < _CONTEXTS_MAX and device is not None:
            known.contexts[int(fact["address"])] = device
        self._to_look[process] = None

    def device(self, fact: Any, process: Process, text: bytes) -> None:
        """The process has asked for a device's UUID."""
        known = self._processes.setdefault(process, _ProcessDevices())
        if len(text) == 16 and len(known.uuids) < _CONTEXTS_MAX:
            known.uuids[int(fact["handle"]) & 0xFFFFFFFF] = text

    def works(self, process: Process, cgroup: tuple[int, int]) -> None:
        """The process uses a GPU, perhaps in a context that it made before anybody looked."""
        if process in self._departed:
            return
        known = self._processes.setdefault(process, _ProcessDevices())
        if not known.asked:
            known.asked = True
            known.cgroup = cgroup
            self._to_look[process] = None

    def take_questions(self) -> list[Process]:
        """Processes that began to use a GPU: their open files tell which one."""
        wanted, self._to_look = self._to_look, {}
        return list(wanted)

    def found(self, report: DevicesFound) -> None:
        """What the helper found open in a process."""
        known = self._processes.get(report.process)
        if known is not None:
            known.files = report.files
            known.instances = report.instances
            known.mps = report.mps

    def gpu(self, process: Process, context: int | None) -> str | None:
        """UUID of the GPU of a context; else the only device file that the process has open."""
        known = self._processes.get(process)
        if known is None:
            return None
        device = known.contexts.get(context) if context else None
        if device is not None and device in known.uuids:
            kind = "MIG" if known.instances else "GPU"
            return f"{kind}-{uuid.UUID(bytes=known.uuids[device])}"
        if len(known.instances) == 1:
            return known.instances[0]
        return known.files[0] if len(known.files) == 1 else None

    def sharing(self) -> dict[tuple[int, int], str]:
        """How each tenant shares its GPUs, where it can be told; by the kernel's cgroup ids."""
        users: dict[str, set[tuple[int, int]]] = {}
        live = {p: k for p, k in self._processes.items() if p not in self._departed}
        for process, known in live.items():
            for context in known.contexts or (0,):
                if gpu := self.gpu(process, context):
                    users.setdefault(gpu, set()).add(known.cgroup)
        modes = {}
        for tenants in users.values():
            for tenant in tenants:
                modes[tenant] = "timeslice" if len(tenants) > 1 else "exclusive"
        for known in live.values():
            if known.mps:
                modes[known.cgroup] = "mps"
            if known.instances:
                modes[known.cgroup] = "mig"
        return modes

    def gone(self, process: Process) -> None:
        """The process ended; its last rows may still be on their way."""
        if oldest := self._departed.add(process):
            self._processes.pop(oldest, None)
