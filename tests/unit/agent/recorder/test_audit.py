"""The last check: what does not add up is told, and what does is not."""

import json
from types import SimpleNamespace
from typing import Any

from cotenant.agent.recorder.audit import audit
from cotenant.agent.recorder.samplers.losses import Fate, Losses, Tally
from cotenant.agent.recorder.session_row import SessionRow

TALLY = Tally("cuda", 7, 0, 0)


def audited(*, seen: int, stored: int, miscounted: int) -> tuple[list[str], dict[str, Any]]:
    losses = Losses(lambda entries: entries["cgroup_id"])
    losses.count(TALLY, Fate(seen, 0, 0, 0))
    losses.appended([(TALLY, stored)])
    losses.sealed()
    session = SessionRow(node="n", boot_id="b", hierarchy="v2", layers="both", attaching_ns=0)
    session.started(now_ns=1, offset_ns=0, method="multi")
    sink: Any = SimpleNamespace(miscounted=miscounted)
    lines = audit(losses, sink, session)
    return lines, json.loads(session.table(0).column("notes")[0].as_py())


def test_a_recording_that_adds_up_is_told_nothing() -> None:
    assert audited(seen=101, stored=101, miscounted=0) == ([], {})


def test_events_that_are_missing_are_told_by_tenant() -> None:
    lines, notes = audited(seen=101, stored=90, miscounted=0)
    assert lines == ["11 events are unaccounted for; see notes in sessions"]
    assert notes == {"imbalance": {"cuda 7 0 0": 11}}


def test_rows_that_the_store_made_up_are_told() -> None:
    lines, notes = audited(seen=101, stored=101, miscounted=3)
    assert lines == ["the store sealed +3 rows too many"]
    assert notes == {"miscounted": 3}
