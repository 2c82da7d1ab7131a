"""Who hears which of the helper's reports."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cotenant.agent.protocol.reports import (
    AttachGap,
    DevicesFound,
    ForksWaited,
    HooksRefused,
    KernelsFound,
    LibraryReport,
    MemoryUnsure,
    Named,
    PointerReport,
    Report,
    Rested,
    RunsMissed,
    TextsRead,
    Trouble,
    Unprobed,
    WorkPassedOver,
)
from cotenant.agent.recorder.blind_spots import BlindSpots
from cotenant.agent.recorder.overhead.resting_tenants import RestingTenants
from cotenant.agent.recorder.processes.gpu_processes import GpuProcesses
from cotenant.agent.recorder.session_row import SessionRow
from cotenant.agent.refusals import Notices
from cotenant.identity.ledger import Ledger

Handlers = Mapping[type, tuple[Callable[[Any], None], ...]]


def report_handlers(
    session: SessionRow,
    notices: Notices,
    resting: RestingTenants,
    gpus: GpuProcesses,
    ledger: Ledger,
    blind_spots: BlindSpots,
) -> Handlers:
    """By kind; what is not here answers whoever waits for it in ``helper_client``."""
    return {
        HooksRefused: (session.hooks_refused, notices.hooks_refused),
        RunsMissed: (session.runs_missed, notices.runs_missed, blind_spots.runs_missed),
        LibraryReport: (session.library, notices.library),
        AttachGap: (session.attach_gap, blind_spots.attach_gap),
        PointerReport: (session.pointer,),
        WorkPassedOver: (session.passed_over, blind_spots.passed_over),
        ForksWaited: (session.forks_waited, notices.forks_waited),
        Trouble: (session.helper_trouble,),
        Rested: (resting.rested, blind_spots.rested),
        Unprobed: (blind_spots.unprobed,),
        Named: (lambda report: ledger.named(report.key, report.names, report.named_ns),),
        DevicesFound: (gpus.devices.found,),
        KernelsFound: (gpus.kernels_found,),
        TextsRead: (gpus.texts_read,),
        MemoryUnsure: (gpus.memory_unsure,),
    }


def dispatch(handlers: Handlers, reports: Iterable[Report]) -> None:
    """Each report to those who want it, in the order in which they came."""
    for report in reports:
        for handle in handlers.get(type(report), ()):
            handle(report)
