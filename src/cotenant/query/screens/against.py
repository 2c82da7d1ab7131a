"""What changed from one store to another, per tenant and kernel: the same recipe on each."""

from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from cotenant.query.engine.answer import Answer, Interval
from cotenant.query.engine.session import Session
from cotenant.query.engine.united import united
from cotenant.query.questions.loader import find

QUESTION: Final = "compare_windows"
_MOST: Final = 1_000_000  # Rows of each store.
# All of a store is in the second window.
_SETTINGS: Final = ("at=1970-01-01T00:00:00", f"limit={_MOST}")

Key = tuple[str, str]


def compared(after: Session, before: Session, limit: int) -> tuple[Answer, Answer]:
    """The answer with the columns of the question, and the answer of the store before.

    It lacks what either store lacks.

    Stores cover different times: what the one before spent is taken as if it had been as long.
    """
    sql = find(QUESTION).render(_SETTINGS)
    now, then = (session.ask(sql, rows=_MOST) for session in (after, before))
    scale = _length(now.interval) / _length(then.interval)
    rows = _joined(_by_kernel(now), _by_kernel(then), scale)
    rows.sort(key=lambda row: (-abs(row["change_ns"]), row["tenant"], row["kernel_name"]))
    table = pa.Table.from_pylist(rows[:limit], now.table.schema)
    both = united([now.standing, then.standing], now.sql)
    return replace(now, table=table, standing=replace(both, interval=now.interval)), then


def _length(interval: Interval | None) -> float:
    return max(interval.end_ns - interval.start_ns, 1) if interval else 1.0


def _by_kernel(answer: Answer) -> dict[Key, dict[str, Any]]:
    return {(row["tenant"], row["kernel_name"]): row for row in answer.rows()}


def _joined(
    now: dict[Key, dict[str, Any]], then: dict[Key, dict[str, Any]], scale: float
) -> list[dict[str, Any]]:
    return [_row(key, now.get(key, {}), then.get(key, {}), scale) for key in now.keys() | then]


def _row(key: Key, now: dict[str, Any], then: dict[str, Any], scale: float) -> dict[str, Any]:
    before_ns, after_ns = then.get("after_ns"), now.get("after_ns")
    return {
        "tenant": key[0],
        "kernel_name": key[1],
        "image_before": then.get("image_after"),
        "image_after": now.get("image_after"),
        "build_id": now.get("build_id") or then.get("build_id"),
        "calls_before": then.get("calls_after", 0),
        "calls_after": now.get("calls_after", 0),
        "before_ns": before_ns,
        "after_ns": after_ns,
        "ratio": after_ns / before_ns if before_ns and after_ns is not None else None,
        "change_ns": round(now.get("change_ns", 0) - scale * then.get("change_ns", 0)),
    }
