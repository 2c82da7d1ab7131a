"""Puts statements to all nodes of a store: their first part runs in tasks, the rest here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from cotenant.errors import QuestionError
from cotenant.fleet.groups import together
from cotenant.fleet.runner import Runner, Told
from cotenant.fleet.task import NodeRows, Rows, StoreView, Task
from cotenant.query.engine.answer import Answer
from cotenant.query.engine.connection import connect, memory_share
from cotenant.query.engine.cuts import GIVEN, Cut, Spread, after_cut, before_cut
from cotenant.query.engine.given import give
from cotenant.query.engine.session import QueryLimits, Session
from cotenant.query.engine.sight import Sight, several
from cotenant.query.engine.statement import one_line, read_only
from cotenant.query.engine.tenant_filter import cgroups_meant
from cotenant.query.engine.united import united
from cotenant.query.findings.explain import Explanation, concluded, found
from cotenant.store.layout import check_readable
from cotenant.store.nodes import Nodes

_MOST_ROWS: Final = 5_000_000  # Of one query on one node.
_RANKS: Final = "SELECT DISTINCT node, comm_hash FROM whole.nccl_events WHERE comm_hash IS NOT NULL"


@dataclass(frozen=True, slots=True)
class FleetSession:
    """All nodes of a store, or those of a choice, each to be asked in a task of its own."""

    view: StoreView
    nodes: tuple[str, ...]
    recorded: frozenset[str]  # Tables of which any node has a segment.
    runner: Runner
    told: Told

    def ask(self, sql: str, cuts: tuple[Cut, ...], *, rows: int = _MOST_ROWS) -> Answer:
        """The answer that one session over all nodes would give."""
        named = _named(sql)
        given: dict[str, Any] = {}
        parts: list[NodeRows] = []
        for cut in cuts:
            queries = {name: before_cut(sql, name, given) for name in cut.queries}
            parts = self._run(cut.spread, Rows(queries, named, dict(given)))
            given |= _united(parts)
        with _reducing(self.view, given) as connection:
            table = _asked(connection, after_cut(sql, given))
        standing = united([part.standing for part in parts], sql)
        return Answer(table.slice(0, rows), standing, truncated=table.num_rows > rows)

    def each(self, sql: str) -> Answer:
        """The answers of each node, one after the other, with their node."""
        parts = self._run(Spread.EACH, Rows({"answer": sql}, _named(sql), {}))
        tables = [part.tables["answer"] for part in parts]
        named = [_with_node(*each) for each in zip(self.nodes, tables, strict=False)] or tables
        standing = united([part.standing for part in parts], sql)
        return Answer(pa.concat_tables(named, promote_options="permissive"), standing)

    def explain(self, tenants: frozenset[str] | None) -> Explanation:
        """The findings that one session over all nodes would have."""
        parts = [p for spread in Spread for p in self._run(spread, partial(found, spread=spread))]
        return concluded(parts, lambda sql, cut: self.ask(sql, (cut,)), set(self.recorded), tenants)

    def meant(self, text: str) -> tuple[tuple[int, ...], frozenset[str]]:
        """The cgroups, and the tenants, that ``--tenant text`` means."""
        work = Rows({"containers": "FROM containers"}, frozenset(), {})
        with _reducing(self.view, _united(self._run(Spread.EACH, work))) as connection:
            connection.execute(f"CREATE VIEW containers AS FROM {GIVEN}.containers")
            cgroups = cgroups_meant(connection, text)
            rows = connection.execute(
                "SELECT DISTINCT tenant FROM containers WHERE list_contains(?, cgroup_id)",
                [list(cgroups)],
            ).fetchall()
        return cgroups, frozenset(tenant for (tenant,) in rows)

    def of(self, tenant: str) -> "FleetSession":
        """The same, with nothing but the rows of a tenant."""
        cgroups, _ = self.meant(tenant)
        sight = replace(self.view.sight, cgroups=cgroups)
        return replace(self, view=replace(self.view, tenant=tenant, sight=sight))

    def _run(self, spread: Spread, work: Callable[[Session], Any]) -> list[Any]:
        tasks = [Task(self.view, nodes, work) for nodes in self._groups(spread)]
        return self.runner.run(tasks, self.told)

    def _groups(self, spread: Spread) -> list[tuple[str, ...]]:
        each: list[tuple[str, ...]] = [(node,) for node in self.nodes]
        if spread is Spread.EACH or len(each) < 2:
            return each or [()]  # A store without nodes has its tables, too.
        parts = self._run(Spread.EACH, Rows({"ranks": _RANKS}, frozenset(), {}))
        own: dict[str, list[int]] = {node: [] for node in self.nodes}
        for row in _united(parts)["ranks"].to_pylist():
            own[row["node"]].append(row["comm_hash"])
        return together(own)


def open_fleet(
    store: Path,
    named: str,
    runner: Runner,
    told: Told,
    *,
    window: Mapping[str, Any],
    **options: Any,
) -> FleetSession:
    """The nodes of a store; ``named`` is what workers know it by, ``store`` has its manifests."""
    check_readable(store)
    nodes = Nodes(store, window["nodes"])
    segments = nodes.segments()
    last_ns = max((s.max_ns for s in segments if s.max_ns is not None), default=None)
    limits: QueryLimits = replace(
        window["limits"], rows=_MOST_ROWS, threads=runner.threads, watched=False
    )
    view = StoreView(
        store=named,
        sight=Sight(several(segments), last_ns),
        from_ns=window["from_ns"],
        to_ns=window["to_ns"],
        limits=limits,
        **options,
    )
    tables = frozenset(s.table for s in segments)
    return FleetSession(view, tuple(nodes.chosen()), tables, runner, told)


def _named(sql: str) -> frozenset[str]:
    with duckdb.connect(":memory:") as connection:
        return read_only(connection, sql).tables


def _united(parts: list[NodeRows]) -> dict[str, Any]:
    return {
        name: pa.concat_tables([part.tables[name] for part in parts], promote_options="permissive")
        for name in parts[0].tables
    }


def _reducing(view: StoreView, given: Mapping[str, Any]) -> Any:
    """A database with these rows and nothing else."""
    memory = view.limits.memory_bytes or memory_share()
    connection, _ = connect(Path(view.store), memory, spill=view.limits.spill)
    give(connection, given)
    return connection


def _asked(connection: Any, sql: str) -> Any:
    try:
        return connection.sql(sql).to_arrow_table()
    except duckdb.Error as error:
        raise QuestionError(one_line(error)) from error


def _with_node(node: str, rows: Any) -> Any:
    """The rows with their node first, if they do not tell it."""
    if "node" in rows.column_names:
        return rows
    return rows.add_column(0, "node", pa.array([node] * rows.num_rows, pa.string()))
