"""Every report of the helper has somebody who wants to know it, or who waits for it."""

import json
from typing import Any, get_args
from unittest.mock import Mock

import pytest

from cotenant.agent.process import Process
from cotenant.agent.protocol.reports import (
    AttachGap,
    Failed,
    HooksRefused,
    Inspected,
    LibraryReport,
    MapsShared,
    MemoryUnsure,
    Named,
    PointerReport,
    Ready,
    Report,
    Rested,
    RunsMissed,
    Stopped,
    TrialReady,
    Trouble,
    WorkPassedOver,
)
from cotenant.agent.recorder.report_handlers import dispatch, report_handlers
from cotenant.agent.recorder.session_row import SessionRow
from cotenant.agent.refusals import Notices
from cotenant.identity import Ledger, Names

AWAITED = {MapsShared, TrialReady, Ready, Failed, Stopped, Inspected}


@pytest.fixture
def session() -> SessionRow:
    row = SessionRow(node="n", boot_id="b", hierarchy="v2", layers="both", attaching_ns=0)
    row.started(now_ns=7, offset_ns=3, method="multi")
    return row


def notes(session: SessionRow) -> Any:
    return json.loads(session.table(3).column("notes")[0].as_py())


def test_a_report_is_dispatched_or_waited_for() -> None:
    handlers = report_handlers(*[Mock()] * 6)
    assert set(handlers) | AWAITED == set(get_args(Report))
    assert not set(handlers) & AWAITED


def test_reports_reach_those_who_want_them(session: SessionRow) -> None:
    notices, control, gpus, ledger = Notices(), Mock(), Mock(), Ledger("n", "b")
    ledger.born(0, 23, f"/docker/{'a' * 64}", 1)
    handlers = report_handlers(session, notices, control, gpus, ledger, Mock())
    unsure, rested = MemoryUnsure((Process(7, 1),)), Rested(3, done=True)
    dispatch(
        handlers,
        [
            HooksRefused({"io": "no such hook"}),
            RunsMissed({"program": 5}),
            RunsMissed({}),
            LibraryReport("/a/libcuda.so.1", 3, {"cuInit": "odd"}, gap_ns=5),
            LibraryReport("/a/libcuda.so.1", 3, {"cuInit": "odd"}, gap_ns=2),
            AttachGap("/docker/a", "/a/libcuda.so.1", 11, 23, probed=True),
            PointerReport(7, "cuInit"),
            PointerReport(7, "cuFree", "points elsewhere"),
            WorkPassedOver({"names": {"/storm": 4}}),
            Trouble("channel", "MessageTooLarge: a message"),
            Named(f"/docker/{'a' * 64}", Names("docker", name="t", confirmed=True), 9),
            Ready("round robin"),
            rested,
            unsure,
        ],
    )
    gap = {"begin_ns": 14, "end_ns": 26, "probed": True, "kinds": []}
    assert notes(session) == {
        "attach_gaps": [{"tenant": "/docker/a", "library": "/a/libcuda.so.1", **gap}],
        "hooks_refused": {"io": "no such hook"},
        "programs_missed": {"program": 5},
        "pointers": {
            "attached": 1,
            "refused": [{"pid": 7, "name": "cuFree", "refused": "points elsewhere"}],
        },
        "passed_over": {"names": {"/storm": 4}},
        "trouble_channel": "MessageTooLarge: a message",
    }
    (library,) = json.loads(session.table(3).column("libraries")[0].as_py())
    assert (library["refused"], library["gap_ns"]) == ({"cuInit": "odd"}, 5)
    assert session.table(3).column("attach_gap_ns")[0].as_py() == 5
    assert notices.lines == [
        "no such hook",
        "program: the kernel leaves out some of its runs; those events are missing",
    ]
    assert [row["tenant"] for row in ledger.rows()][-1] == "t"
    control.rested.assert_called_once_with(rested)
    gpus.memory_unsure.assert_called_once_with(unsure)


def test_what_the_helper_calls_trouble_is_noted_in_the_session(session: SessionRow) -> None:
    session.helper_trouble(Trouble("channel", "MessageTooLarge: a message"))
    assert notes(session) == {"trouble_channel": "MessageTooLarge: a message"}
