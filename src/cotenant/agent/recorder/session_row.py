"""What a recording says about itself: one row of ``sessions``, rewritten as it learns."""

import json
import os
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from cotenant.agent.protocol.codec import by_name
from cotenant.agent.protocol.reports import (
    AttachGap,
    ForksWaited,
    HooksRefused,
    LibraryReport,
    PointerReport,
    RunsMissed,
    Trouble,
    WorkPassedOver,
)
from cotenant.agent.recorder.processes.layer_choice import LayerChoice
from cotenant.schema.dimensions import SESSIONS
from cotenant.store.segment import rows_of

_EVENTS_NOTED: Final = 64

_REFUSED_KEPT: Final = 100

_LIBRARIES_MAX: Final = 256


class SessionRow:
    """The row of this recording."""

    def __init__(
        self, *, node: str, boot_id: str, hierarchy: str, layers: str, attaching_ns: int
    ) -> None:
        self._row: dict[str, Any] = {
            "session_id": uuid.uuid4().hex,
            "node": node,
            "boot_id": boot_id,
            "kernel": os.uname().release,
            "ended_ns": None,
            "layers": layers,
            "hierarchy": hierarchy,
            "attach_gap_ns": None,
            "coverage": None,
            "spans_until_ns": attaching_ns,
            "clock_error_ns": None,
        }
        self._libraries: dict[str, LibraryReport] = {}
        self._notes: dict[str, Any] = {}
        self._gaps: list[AttachGap] = []
        self._waits: list[ForksWaited] = []
        self.changed = False

    @property
    def libraries(self) -> int:
        """How many files are probed."""
        return sum(1 for library in self._libraries.values() if library.attached)

    @property
    def stepped(self) -> bool:
        """Whether any function is single-stepped."""
        return any(library.stepped for library in self._libraries.values())

    def started(self, *, now_ns: int, offset_ns: int, method: str) -> None:
        """Every probe is attached."""
        self._row |= {
            "started_ns": now_ns,
            "wall_offset_ns": offset_ns,
            "attach_method": method,
        }
        self.changed = True

    def clock_error(self, error_ns: int | None) -> None:
        """How far the clock may be from UTC."""
        if self._row["clock_error_ns"] != error_ns:
            self._row["clock_error_ns"] = error_ns
            self.changed = True

    def spans_until(self, moment_ns: int | None) -> None:
        """Operations that began before are in spans; None: all are."""
        if self._row["spans_until_ns"] != moment_ns:
            self._row["spans_until_ns"] = moment_ns
            self.changed = True

    def hooks_refused(self, report: HooksRefused) -> None:
        """Programs that could not be placed in the kernel."""
        self.note(hooks_refused=report.reasons)

    def runs_missed(self, report: RunsMissed) -> None:
        """Programs that the kernel did not run each time."""
        if report.programs:
            self.note(programs_missed=report.programs)

    def passed_over(self, report: WorkPassedOver) -> None:
        """What tenants brought too much of."""
        self.note(passed_over=report.counts)

    def helper_trouble(self, report: Trouble) -> None:
        """What failed in the helper."""
        self.trouble(**{report.of: report.text})

    def library(self, report: LibraryReport) -> None:
        """A library was met."""
        # The newest stay: containers come and go with files of their own.
        key = f"{report.build_id} {report.path}"
        before = self._libraries.pop(key, report)
        self._libraries[key] = replace(report, gap_ns=_longer(before.gap_ns, report.gap_ns))
        while len(self._libraries) > _LIBRARIES_MAX:
            del self._libraries[next(iter(self._libraries))]
        self._row["attach_gap_ns"] = _longer(self._row["attach_gap_ns"], report.gap_ns)
        self.changed = True

    def attach_gap(self, report: AttachGap) -> None:
        """A tenant had a library mapped before it was probed."""
        self._gaps = [*self._gaps, report][-_EVENTS_NOTED:]
        self.changed = True

    def forks_waited(self, report: ForksWaited) -> None:
        """No process on the host could fork for a while."""
        self._waits = [*self._waits, report][-_EVENTS_NOTED:]
        self.changed = True

    def pointer(self, report: PointerReport) -> None:
        """A function handed out by address was probed, or refused for a reason."""
        told = self._notes.setdefault("pointers", {"attached": 0, "refused": []})
        if report.refused is None:
            told["attached"] += 1
        elif len(told["refused"]) < _REFUSED_KEPT:
            told["refused"].append(by_name(report))
        self.changed = True

    def layers(self, layers: LayerChoice, *, processes: bool) -> None:
        """Which layers are probed, and what the last processes showed at each."""
        told = {"layers": layers.describe()}
        if processes:
            told["coverage"] = json.dumps(
                [
                    {"pid": p.pid, "runtime": seen[0], "matched": seen[1], "driver_alone": seen[2]}
                    for p, seen in layers.by_process.items()
                ]
            )
        if told != {key: self._row[key] for key in told}:
            self._row |= told
            self.changed = True

    def note(self, **notes: Any) -> None:
        """Something else worth knowing."""
        for key, value in notes.items():
            if self._notes.get(key) != value:
                self._notes[key] = value
                self.changed = True

    def trouble(self, **troubles: Any) -> None:
        """What does not work right now; what works again stays as a note of its time."""
        for key, value in troubles.items():
            if value:
                self.note(**{f"trouble_{key}": value})

    def clock_set(self, now_ns: int, by_ns: int) -> None:
        """The wall clock was set: times before and after do not compare."""
        steps = [*self._notes.get("clock_steps", ()), {"at_ns": now_ns, "by_ns": by_ns}]
        self.note(clock_steps=steps[-_EVENTS_NOTED:])

    def storms(self, names: Iterable[str], now_ns: int, entry_ns: float) -> None:
        """Who calls what so often that even counting the calls costs too much, and how much."""
        news = [{"who": name, "at_ns": now_ns, "entry_ns": round(entry_ns)} for name in names]
        if news:
            told = [*self._notes.get("budget_storms", ()), *news]
            self.note(budget_storms=told[-_EVENTS_NOTED:])

    def over_budget(self, calls: Mapping[str, int]) -> None:
        """Calls of these functions were counted at entry only, so far."""
        if calls:
            self.note(budget_counted_only=dict(calls))

    def ended(self, now_ns: int) -> None:
        """The recording stopped as it should."""
        self._row["ended_ns"] = now_ns
        self.changed = True

    def table(self, offset_ns: int) -> Any:
        """The row as it stands."""
        self.changed = False
        self._row["wall_offset_ns"] = offset_ns
        row = {
            **self._row,
            "libraries": json.dumps([by_name(library) for library in self._libraries.values()]),
            "notes": json.dumps(self._notes | self._late(offset_ns) | self._waited(offset_ns)),
        }
        return rows_of(SESSIONS, [row])

    def _late(self, offset_ns: int) -> dict[str, Any]:
        """Whose probes came late, by the wall clock."""
        times = [
            {"begin_ns": gap.begin_ns + offset_ns, "end_ns": gap.end_ns + offset_ns}
            for gap in self._gaps
        ]
        gaps = [by_name(gap) | wall for gap, wall in zip(self._gaps, times, strict=True)]
        return {"attach_gaps": gaps} if gaps else {}

    def _waited(self, offset_ns: int) -> dict[str, Any]:
        """When forks waited, by the wall clock."""
        waits = [by_name(wait) | {"end_ns": wait.end_ns + offset_ns} for wait in self._waits]
        return {"forks_waited": waits} if waits else {}


def _longer(one: int | None, other: int | None) -> int | None:
    """The longer gap of two files of one name and build: each container may bring its own."""
    return max((gap for gap in (one, other) if gap is not None), default=None)
