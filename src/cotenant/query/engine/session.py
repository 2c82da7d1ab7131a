"""An open store: a read-only in-memory DuckDB with one view per table."""

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

import duckdb

from cotenant.errors import QuestionError, StoreError, TooLarge
from cotenant.query.derived.registry import DERIVED, with_before, with_sources
from cotenant.query.engine.absence import not_kept
from cotenant.query.engine.answer import Answer, Standing
from cotenant.query.engine.batches import Batches, FileGone
from cotenant.query.engine.blindness import forgotten, holes_of, touches_losses
from cotenant.query.engine.catalog import Catalog
from cotenant.query.engine.completeness import interval_of, losses_of, unrecorded_of
from cotenant.query.engine.connection import connect, memory_share
from cotenant.query.engine.given import give
from cotenant.query.engine.guard import check, own_names, without_paths
from cotenant.query.engine.left_behind import left_behind
from cotenant.query.engine.operations import operations_behind, operations_of
from cotenant.query.engine.sight import Sight
from cotenant.query.engine.snapshots import RESTORE
from cotenant.query.engine.statement import (
    Operations,
    Statement,
    one_line,
    read_only,
    tree_of,
)
from cotenant.query.engine.stored_tables import StoredTables, stored_behind
from cotenant.query.engine.window import Window, start_of
from cotenant.schema import TABLES
from cotenant.schema.holes import WITH_OPERATIONS
from cotenant.store.layout import check_readable
from cotenant.store.manifest import Segment, Stamp
from cotenant.store.nodes import Nodes

_TRIES: Final = 7
# Lists tables, so derived ones must exist.
_CATALOG: Final = re.compile(r"\b(show|duckdb_\w+)\b", re.IGNORECASE)
# One is DuckDB's own limit, the other the system's.
_OUT_OF_MEMORY: Final = ("Out of Memory Error", "failed to allocate")


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What one question may cost, and which rows it may read."""

    seconds: float = 300.0
    rows: int = 1_000_000  # Of an answer that is held in memory; a stream has no such limit.
    memory_bytes: int | None = None  # None is half of the host's memory, 4 GiB at most.
    spill: bool = True  # Whether a question that exceeds its memory may use the disk.
    watched: bool = False  # Asked one at a time, by somebody who wants to know how far it is.
    guarded: bool = False  # The reader may learn nothing of other tenants; see ``guard``.
    threads: int | None = None  # None is one for each CPU.
    throughout: bool = False  # Asked about all of the window; see ``Window``.


class Session:
    """Answers questions about one store while it is open; safe to use from threads.

    ``tenant`` restricts every table to one tenant, ``from_ns`` and ``to_ns`` (UTC) to a window.
    ``since_ns`` is the window's length, counted back from ``to_ns``, by default from now.
    ``nodes`` are those to read, by default all. With ``sight``, the session is one of several over
    other nodes, and answers as one over all of them.
    """

    def __init__(  # noqa: PLR0913 - what a reader may narrow
        self,
        store: Path | str,
        *,
        tenant: str | None = None,
        since_ns: int | None = None,
        from_ns: int | None = None,
        to_ns: int | None = None,
        nodes: Iterable[str] = (),
        limits: QueryLimits | None = None,
        sight: Sight | None = None,
    ) -> None:
        self.store = Path(store).absolute()
        self._nodes = Nodes(self.store, nodes)
        self.limits = limits or QueryLimits()
        self._tenant, self._sight = tenant, sight
        self._guarded = self.limits.guarded and tenant is not None
        window = Window(
            start_of(from_ns, to_ns, since_ns),
            to_ns,
            tenant is not None,
            throughout=self.limits.throughout,
        )
        self._segments: list[Segment] = []
        # Of the manifest that was read.
        self._standings: dict[tuple[frozenset[str], Operations], Standing] = {}
        self._stamp: Stamp | None = None
        self._everyone: Session | None = None  # Over the rows of every tenant, once it is asked.
        self._lock = threading.Lock()
        check_readable(self.store)
        self._memory_bytes = self.limits.memory_bytes or memory_share()
        self._connection, self._watched = connect(
            self.store, self._memory_bytes, spill=self.limits.spill, threads=self.limits.threads
        )
        self._own = own_names(self._connection) if self._guarded else None
        self._catalog = Catalog(self._connection, self._ask_all, tenant is not None, self._guarded)
        self._tables = StoredTables(
            self._connection, self.store, window, tenant, guarded=self._guarded, sight=sight
        )
        try:
            self._refresh()
            if tenant is not None:
                self._make(("containers",))
        except BaseException:
            self.close()
            raise

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments that were current when the last question was asked."""
        return tuple(self._segments)

    @property
    def bounds(self) -> dict[str, int]:
        """The window, as parameters ``from`` and ``to`` of a question."""
        return self._tables.window.bounds()

    def ask(
        self, sql: str, params: Mapping[str, Any] | None = None, *, rows: int | None = None
    ) -> Answer:
        """Run one read-only statement, and return at most ``rows`` rows."""
        import pyarrow as pa

        most = self.limits.rows if rows is None else rows
        with self.stream(sql, params) as (batches, standing):
            taken, count = [], 0
            for batch in batches:
                taken.append(batch)
                count += batch.num_rows
                if count > most:
                    break
            table = pa.Table.from_batches(taken, batches.schema)
        return Answer(table.slice(0, most), standing, truncated=count > most)

    def progress(self) -> float | None:
        """How much of a watched query is done, from 0 to 1; None where that is unknown."""
        try:
            percent = self._watched.query_progress()
        except duckdb.Error:
            return None
        return percent / 100 if 0 <= percent <= 100 else None

    def standing(self, tables: Iterable[str]) -> Standing:
        """The standing of an answer from these tables."""
        self._refresh_if_changed()
        return self._standing("", tables)

    def give(self, tables: Mapping[str, Any]) -> None:
        """Have these rows as tables of the schema ``given``, for statements that were cut."""
        give(self._connection, tables)

    @contextmanager
    def stream(
        self, sql: str, params: Mapping[str, Any] | None = None
    ) -> Iterator[tuple[Batches, Standing]]:
        """The answer batch by batch, and its standing."""
        self._refresh_if_changed()
        cursor = self._watched if self.limits.watched else self._connection.cursor()
        deadline = threading.Timer(self.limits.seconds, cursor.interrupt)
        deadline.daemon = True
        try:
            statement = read_only(cursor, sql)
            if self._own:
                check(statement, str(self._tenant), self._own)
            self._derive(statement)
            deadline.start()
            batches = self._run(cursor, statement.sql, dict(params) if params else None)
            operations = self._operations(statement)
            yield batches, self._standing(statement.sql, statement.tables, operations)
        finally:
            deadline.cancel()
            if deadline.ident is not None:
                # At exit DuckDB complains on stderr about an open cursor.
                deadline.join()
            if cursor is not self._watched:
                with suppress(duckdb.Error):
                    cursor.close()

    def _derive(self, statement: Statement) -> None:
        listed = not statement.tables and _CATALOG.search(statement.sql)
        # Of a name that is none of ours, DuckDB says which of those that are there is meant.
        strangers = statement.tables - statement.queries - TABLES.keys() - DERIVED.keys()
        named = TABLES if listed or strangers else statement.tables
        try:
            self._make(named)
            if listed:
                self._catalog.describe()
            self._catalog.make(statement.tables)
        except duckdb.IOException:
            # Merged or expired since the manifest was read.
            self._refresh()
            self._make(named)
            self._catalog.make(statement.tables)
        except duckdb.Error as error:
            raise self._translated(error) from error

    def _ask_all(self, sql: str) -> Any:
        window = self._tables.window
        if self._everyone is None:
            self._everyone = Session(
                self.store,
                from_ns=window.from_ns,
                to_ns=window.to_ns,
                nodes=self._nodes.names,
                limits=self.limits,
                sight=self._sight,
            )
        with self._everyone.stream(sql) as (batches, _):
            import pyarrow as pa

            return pa.Table.from_batches(list(batches), batches.schema)

    def within(self, from_ns: int, to_ns: int) -> "Session":
        """The same store and tenant in another window."""
        return Session(
            self.store,
            tenant=self._tenant,
            from_ns=from_ns,
            to_ns=to_ns,
            nodes=self._nodes.names,
            limits=self.limits,
            sight=self._sight,
        )

    def _run(self, cursor: Any, sql: str, params: dict[str, Any] | None) -> Batches:
        try:
            return Batches(cursor, sql, params, self._translated)
        except FileGone:
            # Merged or expired since the manifest was read.
            self._refresh()
            self._derive(read_only(cursor, sql))
        try:
            return Batches(cursor, sql, params, self._translated)
        except FileGone as error:
            raise StoreError(self._words(f"cannot read {self.store}: {error}")) from error

    def _translated(self, error: Exception) -> Exception:
        """DuckDB's error as one of ours; a stream's errors come wrapped by Arrow."""
        if "INTERRUPT" in str(error):
            return QuestionError(
                f"no answer after {self.limits.seconds:g} s; query less time or fewer rows"
            )
        if any(sign in str(error) for sign in _OUT_OF_MEMORY):
            return TooLarge(
                f"this needs more than the {self._memory_bytes >> 20} MiB of memory that a "
                "query may use; query less time or fewer rows"
            )
        return QuestionError(self._words(one_line(error)))

    def _words(self, text: str) -> str:
        return without_paths(text, self.store) if self._guarded else text

    def _operations(self, statement: Statement) -> Operations:
        """Which events the statement reads itself, by their operations."""
        if statement.explained:
            return None
        if WITH_OPERATIONS.isdisjoint(statement.tables):
            return frozenset()
        with self._connection.cursor() as cursor:
            return operations_of(tree_of(cursor, statement.sql))

    def _standing(self, sql: str, named: Iterable[str], operations: Operations = None) -> Standing:
        key = frozenset(named), operations
        standings = self._standings
        if key not in standings:
            standings[key] = self._new_standing(*key)
        return replace(standings[key], sql=sql)

    def _new_standing(self, named: frozenset[str], operations: Operations) -> Standing:
        tables = with_sources(named)
        read = stored_behind(tables)
        if read and self._tenant is not None:
            read |= {"containers"}  # It tells which rows are the tenant's.
        touches = touches_losses(tables)
        if touches:
            read |= {"losses", "sessions"}  # They tell what is missing.
        self._with_files(lambda: self._tables.look(read, self._is_replaced))
        if touches:
            self._make(("losses",))
        cursor, window = self._connection.cursor(), self._tables.window
        try:
            return Standing(
                sql="",
                interval=interval_of(self._segments, with_before(tables), window),
                losses=losses_of(cursor, tables, window),
                missing_segments=self._tables.missing(read),
                unrecorded=unrecorded_of(cursor, tables, window),
                holes=(
                    *holes_of(
                        cursor,
                        with_before(tables),
                        window,
                        self._nodes.written_ns(),
                        operations_behind(named, operations),
                    ),
                    *forgotten(cursor, self._segments, stored_behind(tables), window),
                    *not_kept(cursor, self._nodes.absent(), named, window),
                ),
                left_behind=left_behind(cursor, self._segments, named, window),
            )
        finally:
            cursor.close()

    def _refresh_if_changed(self) -> None:
        if self._is_replaced():
            self._refresh()

    def _refresh(self) -> None:
        """Read the manifests again; tables are made anew when they are named."""
        with self._lock:
            self._read_manifests()

    def _read_manifests(self) -> None:
        self._stamp = self._nodes.stamp()
        self._segments = self._nodes.segments()
        self._tables.renew(self._segments, self._nodes.absent())
        self._catalog.forget()
        self._standings = {}

    def _make(self, names: Iterable[str]) -> None:
        """Create the stored tables behind these names, if they are not made yet."""
        self._with_files(lambda: self._tables.make(names, self._is_replaced))

    def _with_files(self, work: Callable[[], None]) -> None:
        """Do what needs the files of the manifest; with the next one where they are gone."""
        with self._lock:
            for _ in range(_TRIES):
                try:
                    work()
                except FileNotFoundError:
                    self._read_manifests()
                except duckdb.Error as error:
                    raise self._unreadable(error) from error
                else:
                    return
        what = f"cannot read {self.store}: files were removed during the query; try again"
        raise StoreError(self._words(what))

    def _is_replaced(self) -> bool:
        """Whether a manifest is another than the one that was read."""
        return self._nodes.stamp() != self._stamp

    def _unreadable(self, error: Exception) -> StoreError:
        what = f"cannot read {self.store}: {one_line(error)}"
        return StoreError(self._words(f"{what}; {RESTORE}" if ".parquet" in what else what))

    def close(self) -> None:
        """Let go of the store."""
        if self._everyone is not None:
            self._everyone.close()
        self._watched.close()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
