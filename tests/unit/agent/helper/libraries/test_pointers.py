"""Functions that a driver hands out by address are probed in the process that asked for them."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np

from cotenant.agent.helper.libraries.pointers import Pointers
from cotenant.agent.process import Process
from cotenant.agent.protocol.reports import PointerReport, Report
from cotenant.agent.protocol.requests import HandedOut
from cotenant.probes.attach import Attachment, Placed
from cotenant.probes.tables import FUNCTIONS
from cotenant.schema.layouts import MAPPING

PID = 500
LAUNCH = next(f for f in FUNCTIONS if f.symbol == "cuLaunchKernel")


class Attacher:
    """Notes in which process it was to place a probe."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self.removed = 0

    def attach(self, _: int, __: list[Placed], *, pid: int) -> Attachment:
        self.pids.append(pid)
        return Attachment()

    def remove(self, attachment: Attachment) -> None:
        self.removed += 1


def test_a_process_whose_number_was_anothers_has_probes_of_its_own(monkeypatch: Any) -> None:
    library = SimpleNamespace(
        plan=SimpleNamespace(kinds=("cuda",)),
        probes=SimpleNamespace(busy=nullcontext(), void=False),
        opened=lambda: nullcontext(0),
        fd=0,
    )
    libraries = SimpleNamespace(probed=lambda _: library)
    now = np.zeros(1, MAPPING)
    now["process"], now["end"] = PID, 4096
    code = SimpleNamespace(of=lambda _: now)
    attacher, told = Attacher(), list[Report]()
    pointers = Pointers(libraries, attacher, FUNCTIONS, code, told.append, None)  # type: ignore[arg-type]
    monkeypatch.setattr(pointers, "_placed", lambda *_: Placed(LAUNCH, 64))
    first, second = Process(PID, 1009), Process(PID, 2003)
    for tenant, process in (("/storm", first), ("/storm", first), ("/calm", second)):
        now["process_start_ns"] = process.start_ns
        pointers.consider(tenant, PID, [HandedOut(process, 64, "cuLaunchKernel", 12000, 0)])
    assert attacher.pids == [PID, PID]
    assert told == [PointerReport(PID, "cuLaunchKernel")] * 2
    assert {p: f.tenant for p, f in pointers._followed.items()} == {
        first: "/storm",
        second: "/calm",
    }
    # The first one has ended, though its number goes on.
    for _ in range(2):
        pointers.sweep({second})
    assert attacher.removed == 1
    assert list(pointers._followed) == [second]
