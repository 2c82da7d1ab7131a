"""Which derived tables there are, and what each depends on.

A derived table is a ``.sql`` file here, whose header names its sources: a view, or a table if many
others are made from it. A computed table is a Python module with ``SCHEMA`` and ``compute(ask)``.
None costs anything until a statement names it.
"""

import importlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cotenant.schema import TABLES

Ask = Callable[[str], Any]  # SQL to a pyarrow.Table, over the same window.

_HEADER: Final = re.compile(r"--\s*(view|table|from|before):\s*(.*)")


@dataclass(frozen=True, slots=True)
class Derived:
    """A table that is made from others, by ``sql`` or by the ``compute`` of a ``module``."""

    name: str
    doc: str
    sources: tuple[str, ...]
    sql: str | None = None
    module: str | None = None
    also: tuple[str, ...] = ()  # Optional sources; their losses do not make it incomplete.
    before: tuple[str, ...] = ()  # What tells of times before the rows that are left.
    whose: str | None = None  # Column of the owner, if rows are computed from other tenants too.
    alone: bool = False  # Computed from a tenant's own rows where it may see no others.
    kept: bool = False  # Materialized, because many tables are made from it.
    operations: frozenset[str] | None = None  # That a computed table reads of events.

    @property
    def about_others(self) -> bool:
        """Whether it needs the rows of other tenants."""
        return self.whose is not None

    def compute(self, ask: Ask) -> Any:
        """The rows of a computed table, as a ``pyarrow.Table``."""
        return importlib.import_module(f"cotenant.query.derived.{self.module}").compute(ask)

    def empty(self) -> Any:
        """The same table without rows."""
        columns = importlib.import_module(f"cotenant.query.derived.{self.module}").SCHEMA
        return columns.empty_table()


_WORK: Final = frozenset({"launch", "graph_launch", "memcpy", "memset"})
_COMPUTED: Final = (
    Derived(
        "solved_times",
        "Device time of one kernel launch or copy, solved from many spans; and how well.",
        ("spans", "span_mixes", "spans_in_flight"),
        module="solved_times.table",
    ),
    Derived(
        "interference",
        "How much each tenant slows each other one on a GPU, as observed.",
        ("spans", "span_mixes", "spans_in_flight", "containers"),
        module="interference.table",
        also=("cpu_waits",),
        whose="victim",
    ),
    Derived(
        "operation_times",
        "The catalogue: how long each kernel, copy or graph takes alone, and how that is known.",
        ("spans", "span_mixes", "spans_in_flight", "cuda_events", "imported_times", "containers"),
        module="operation_times.table",
        operations=_WORK,
        whose="tenant",
        alone=True,
    ),
    Derived(
        "gpu_use",
        "Per tenant and GPU: time with work queued, GPU time, work, and share of the GPU.",
        ("spans", "span_mixes", "spans_in_flight", "cuda_events", "imported_times", "containers"),
        module="gpu_use.table",
        operations=_WORK,
        also=("looked_at",),
        before=("queued_before_spans",),
        whose="tenant",
        alone=True,
    ),
    Derived(
        "shared_time",
        "For each pair of tenants on a GPU, how long both had work on it.",
        ("spans_in_flight",),
        module="shared_time",
        before=("gpu_seconds", "gpu_overlaps", "containers"),
        whose="tenant",
    ),
)


def _read(name: str, text: str) -> Derived:
    fields = {"view": "", "table": "", "from": "", "before": ""}
    lines = text.splitlines()
    key = "view"
    while lines[0].startswith("--"):
        line = lines.pop(0)
        if match := _HEADER.match(line):
            key = match[1]
            fields[key] = match[2].strip()
        else:
            fields[key] += " " + line.removeprefix("--").strip()
    sources, before = (
        tuple(name.strip() for name in fields[key].split(",") if name.strip())
        for key in ("from", "before")
    )
    kept = bool(fields["table"])
    doc = fields["table"] or fields["view"]
    sql = "\n".join(lines).strip()
    return Derived(name, doc, sources, sql=sql, before=before, kept=kept)


def _load() -> dict[str, Derived]:
    files = sorted(Path(__file__).parent.glob("*.sql"))
    views = [_read(file.stem, file.read_text("utf-8")) for file in files]
    known = {table.name: table for table in (*views, *_COMPUTED)}
    # Leave out what depends on a table that this version does not record.
    while lacking := [n for n, t in known.items() if not {*TABLES, *known}.issuperset(t.sources)]:
        known = {name: table for name, table in known.items() if name not in lacking}
    return known


# Read on import: a process that asks later may have dropped the right to read our files.
DERIVED: Final = _load()


def in_order(names: Iterable[str]) -> list[Derived]:
    """The derived tables behind these names, sources first."""
    found: dict[str, Derived] = {}

    def visit(name: str) -> None:
        if name in found or name not in DERIVED:
            return
        table = DERIVED[name]
        for source in (*table.sources, *table.also, *table.before):
            visit(source)
        found[name] = DERIVED[name]

    for name in sorted(names):
        visit(name)
    return list(found.values())


def with_sources(names: Iterable[str]) -> frozenset[str]:
    """The names, and every table they are made from, directly or not."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += DERIVED[name].sources if name in DERIVED else ()
    return frozenset(found)


def with_before(names: Iterable[str]) -> frozenset[str]:
    """The names, and what tells of times before their rows."""
    found = frozenset(names)
    older = (b for name in found if name in DERIVED for b in DERIVED[name].before)
    return found | with_sources(older)
