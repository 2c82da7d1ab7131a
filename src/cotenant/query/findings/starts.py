"""A process that needs long before its first kernel."""

from typing import Any, Final

from cotenant.query.derived.registry import Ask
from cotenant.query.engine.cuts import Spread
from cotenant.query.findings.finding import Finding, percent
from cotenant.query.questions.loader import find as find_question
from cotenant.query.text import shell

NEEDS: Final = ("cuda_events",)
NODES: Final = Spread.EACH
ONCE: Final = True
LONG_NS: Final = 2e9
OF_ITS_TIME: Final = 0.2

_SQL: Final = find_question("cold_start").render()
_PARTS: Final = {
    "init_ns": "initialising CUDA",
    "context_ns": "making contexts",
    "module_ns": "loading modules",
    "alloc_ns": "allocating memory",
    "copy_ns": "copying weights",
}


def find(ask: Ask) -> list[Finding]:
    """Every start that is slow."""
    return [f for row in ask(_SQL).to_pylist() if (f := _finding(row)) is not None]


def _finding(row: dict[str, Any]) -> Finding | None:
    took = row["until_first_launch_ns"]
    share = took / max(row["seen_ns"], 1)
    if took < LONG_NS or share < OF_ITS_TIME:
        return None
    parts = {text: row[name] or 0 for name, text in _PARTS.items()}
    known = all(row[name] is not None for name in ("init_ns", "context_ns", "module_ns"))
    rest = "outside CUDA (imports, data, weights)" if known else "elsewhere, or starting CUDA"
    parts[rest] = max(took - sum(parts.values()), 0)
    largest = max(parts, key=lambda text: parts[text])
    spent = ", ".join(
        f"{percent(ns / took)} {text}" for text, ns in parts.items() if ns >= 0.01 * took
    )
    return Finding(
        kind="cold start",
        victim=row["tenant"],
        culprit=row["tenant"],
        share=min(share, 1.0),
        confidence=0.9,
        title=f"{row['tenant']} took {took / 1e9:.3g} s to its first kernel, mostly {largest}",
        evidence=(
            f"that is {percent(share)} of the time that process {row['pid']} was seen",
            f"of it {spent}",
        ),
        next=shell.ask("cold_start", row["tenant"]),
        base="the time that the process was seen",
        cost_ns=took,
    )
