"""The GPU that a row's operation ran on."""

from typing import Any, Final

from cotenant.agent.process import Process
from cotenant.agent.recorder.ingest.batch import Batch
from cotenant.agent.recorder.ingest.columns.plain import Needs
from cotenant.agent.recorder.processes.devices import Devices
from cotenant.schema.wire import Field

_KEY: Final = ("pid", "process_start_ns", "context")
_WHO: Final = ("pid", "process_start_ns", "cgroup_id", "cgroup_v1_id")


class GpuColumn:
    """The device behind the calling thread's context."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices

    def needs(self, field: Field) -> Needs:
        """Who called in which context."""
        return [], [_KEY, _WHO]

    def see(self, batch: Batch) -> None:
        """Rows that came: whose processes use a GPU."""
        _, distinct = batch.key(*_WHO)
        for pid, start_ns, cgroup_id, cgroup_v1_id in distinct.tolist():
            self._devices.works(Process(pid, start_ns), (cgroup_id, cgroup_v1_id))

    def make(self, batch: Batch, field: Field) -> Any:
        """UUID or device file; NULL where it cannot be told."""
        codes, distinct = batch.key(*_KEY)
        gpus = (self._devices.gpu(Process(pid, start), at) for pid, start, at in distinct.tolist())
        return batch.spread(codes, gpus)
